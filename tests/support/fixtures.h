#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace autotrain::test {

/// A JSON file of tests/fixtures.
inline nlohmann::json fixture(const std::string& name) {
  std::ifstream in(std::string(AUTOTRAIN_FIXTURES) + "/" + name);
  if (!in) throw std::runtime_error("no fixture " + name);
  return nlohmann::json::parse(in);
}

}  // namespace autotrain::test
