#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "device/work_recorder.h"

namespace autotrain {

/// Records what is queued on the current stream of the calling thread, which must not be the default one.
std::unique_ptr<WorkRecorder> make_cuda_recorder(c10::DeviceIndex index);

}  // namespace autotrain
