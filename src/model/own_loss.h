#pragma once

#include <memory>

#include "model/models.h"

namespace autotrain {

/// The task of a network that computes its loss itself. Its metrics are measured on what it predicts beside.
std::unique_ptr<Task> make_task_with_own_loss(std::shared_ptr<Network> network, PredictionMetrics metrics);

}  // namespace autotrain
