#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autotrain/data.h"
#include "data/bad_samples.h"
#include "data/balance.h"

namespace autotrain {

/// The data of a run.
struct RunData {
  bool from_recipe = false;  ///< false: they are the caller's own
  std::vector<std::unique_ptr<const Dataset>> owned = {};
  const Dataset* train = nullptr;
  std::shared_ptr<const Balance> balance = {};        ///< of the training data; null: an epoch has each once
  const Dataset* validation = nullptr;                ///< null: the run is not evaluated
  const Dataset* test = nullptr;                      ///< measured once, at the end; null: there is none
  std::vector<const SkippingDataset*> skipping = {};  ///< those that go on after bad samples
  std::map<std::string, std::string> files = {};      ///< fingerprints of their files, by path
  std::string initial_weights = {};                   ///< fingerprint of the model's first weights; "": none
};

}  // namespace autotrain
