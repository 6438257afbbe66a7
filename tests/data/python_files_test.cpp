// Driven by tests/interop/files_test.py, which makes the files; alone it has nothing to compare.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "data/datasets.h"
#include "support/samples.h"
#include "support/support.h"

namespace autotrain {
namespace {

namespace fs = std::filesystem;

Value value_of(const nlohmann::json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_array()) return json.get<std::vector<std::string>>();
  return json.get<std::string>();
}

Choice choice_of(const nlohmann::json& json) {
  Choice choice;
  for (const auto& [key, value] : json.items()) {
    if (key == "dataset")
      choice.name = value;
    else
      choice.parameters[key] = value_of(value);
  }
  return choice;
}

// Relative to the largest number, as float32 rounds; integers to the last.
bool agrees(const torch::Tensor& ours, const torch::Tensor& theirs) {
  if (ours.sizes() != theirs.sizes() || ours.scalar_type() != theirs.scalar_type()) return false;
  return ours.is_floating_point() ? ours.allclose(theirs, 1e-6, 1e-7) : ours.equal(theirs);
}

TEST(PythonFiles, HaveTheValuesThatPythonWrote) {
  const char* const folder = std::getenv("AUTOTRAIN_PYTHON_FILES");
  if (folder == nullptr) GTEST_SKIP() << "run by files_test.py";
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().filename());
    const auto json = nlohmann::json::parse(test::slurp(entry.path() / "choice.json"));
    const auto data = make_dataset({choice_of(json)});
    const Batch batch = test::all_samples(*data);
    const auto expected = read_safetensors(entry.path() / "expected.safetensors");
    ASSERT_EQ(expected.size(), 2U);
    for (const auto& [name, tensor] : expected) {
      EXPECT_TRUE(agrees(name == "inputs" ? batch.inputs : batch.targets, tensor)) << name;
    }
  }
}

}  // namespace
}  // namespace autotrain
