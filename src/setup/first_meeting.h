#pragma once

#include <string>
#include <vector>

#include "autotrain/recipe.h"
#include "plan/workbench.h"

namespace autotrain {

/// Where several ranks meet before anything is computed. Ranks that would compute something else are refused;
/// of their budgets the smallest becomes every device's, so that all judge a trial alike; then they connect
/// for tensors.
/// @return the ranks' hosts, in their order; empty where there is but one.
/// @throws Error(kUsage) naming the rank, its host and what differs; Error(kBadRecipe) where two ranks would
/// share a GPU.
std::vector<std::string> agree_on_the_machine(const Recipe& recipe, const Workbench& bench);

/// Where a rank computes.
struct DeviceOfRank {
  std::string host = {};
  std::string bus_id = {};  ///< as Device::bus_id
};

/// NCCL lets no two ranks work on one GPU. @param devices of the ranks in their order.
/// @throws Error(kBadRecipe) naming both.
void refuse_shared_gpus(const std::vector<DeviceOfRank>& devices);

}  // namespace autotrain
