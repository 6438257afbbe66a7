#pragma once

#include <string>

#include "data/detection_dataset.h"

namespace autotrain {

/// Tells what is wrong with the boxes of a detection set, and what is doubtful. @param where they are from.
/// @throws Error(kBadData) with the faults of all kinds, unless the run goes on after them.
void tell_boxes_at_start(const DetectionDataset& data, const std::string& where, bool skips_bad);

/// What a look says of a detection set. @param from "yolo set/images".
void look_at_boxes(const LookRequest& request, const std::string& from, DataLook& look);

}  // namespace autotrain
