#include "fuzz.h"
#include "plan/plan_json.h"
#include "state/run_state.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace autotrain;
  const auto json = nlohmann::ordered_json::parse(data, data + size, nullptr, /*allow_exceptions=*/false);
  fuzz::expect_error_or_result([&] {
    if (!json.is_object()) return;
    RunState::from_json(json.contains("run") ? json["run"] : json);
  });
  try {
    if (json.is_object()) plan_from_json(json.contains("plan") ? json["plan"] : json);
  } catch (const nlohmann::json::exception&) {
    // It says that it throws these.
  } catch (const Error&) {}
  return 0;
}
