#pragma once

#include <nlohmann/json.hpp>

#include "autotrain/error.h"
#include "base/json.h"

namespace autotrain {

/// An error as other processes of the run get it.
inline nlohmann::ordered_json error_to_json(const Error& error) {
  return {{"code", static_cast<int>(error.code())},
          {"where", error.where()},
          {"what", error.problem()},
          {"hint", error.hint()}};
}

/// The error itself. @throws nlohmann::json::exception when a part is missing or of another type.
inline Error error_from_json(const nlohmann::ordered_json& json) {
  return Error(static_cast<ExitCode>(whole_number<int>(json.at("code"))), json.at("where"), json.at("what"),
               json.at("hint"));
}

}  // namespace autotrain
