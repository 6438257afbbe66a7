#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "autotrain/error.h"
#include "autotrain/registry.h"
#include "base/text.h"
#include "data/datasets.h"
#include "model/losses.h"
#include "model/metrics.h"
#include "model/models.h"
#include "optim/schedule.h"
#include "recipe/sections.h"
#include "setup/own_optimizer.h"
#include "setup/own_values.h"
#include "setup/users_code.h"
#include "state/catalog.h"

namespace autotrain {

OwnValues values_of(const Parameters& parameters, const OwnPart& part) {
  std::map<std::string, Value> values;
  for (const OwnKey& key : part.keys) {
    Value& value = values[key.name];
    if (std::holds_alternative<bool>(key.fallback)) value = parameters.flag(key.name);
    if (std::holds_alternative<int64_t>(key.fallback)) value = parameters.integer(key.name);
    if (std::holds_alternative<double>(key.fallback)) value = parameters.real(key.name);
    if (std::holds_alternative<std::string>(key.fallback)) value = parameters.text(key.name);
  }
  return OwnValues(std::move(values));
}

namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& hint) {
  throw Error(ExitCode::kUsage, "autotrain::Registry", what, hint);
}

// ------------------------------------------------------------------ what a part says of itself

void check_name(const std::string& what, const std::string& name) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  if (name.empty() || !std::ranges::all_of(name, allowed))
    refuse(cat(what, " has the name ", quote(name)), "take letters a-z, digits and _");
}

KeySpec spec_of(const std::string& of, const OwnKey& key) {
  check_name("a key of " + of, key.name);
  if (const auto* flag = std::get_if<bool>(&key.fallback)) return bool_key(key.name, key.sentence, *flag);
  if (const auto* number = std::get_if<int64_t>(&key.fallback))
    return integer_key(key.name, key.sentence, *number).from(key.least, key.most);
  if (const auto* number = std::get_if<double>(&key.fallback))
    return real_key(key.name, key.sentence, *number).from(key.least, key.most);
  if (const auto* text = std::get_if<std::string>(&key.fallback))
    return text_key(key.name, key.sentence, *text);
  refuse(cat("the default of the key ", key.name, " of ", of, " is of another type"),
         "give a bool, an int64_t, a double or a std::string: int64_t{256}, 0.5, std::string(\"a\")");
}

// In the section that chooses a part its keys stand beside the section's own.
void check_keys_are_free(const ChoiceSpec& spec, std::vector<ChoiceSpec> Catalog::*table) {
  Recipe recipe;
  for (const Section& section : sections_of(recipe, catalog())) {
    if (section.rows != &(catalog().*table)) continue;
    std::set<std::string> names = {section.choice_key};
    for (const Field& field : section.fields) names.insert(field.spec.name);
    for (const KeySpec& key : spec.keys) {
      if (names.insert(key.name).second) continue;
      refuse(cat(spec.name, " has a key ", key.name, ", which stands in ", section.path, " already"),
             "give it another name");
    }
  }
}

// Its row's first part. @param table where its names must be free.
ChoiceSpec spec_of(const char* kind, const OwnPart& part, bool whole,
                   std::vector<ChoiceSpec> Catalog::*table) {
  const std::string of = cat("the ", kind, ' ', part.name);
  check_name(cat("a ", kind), part.name);
  if (find_row(catalog().*table, part.name) != nullptr)
    refuse(cat("there is ", of, " already"), "take another name");
  if (!whole) refuse(cat(of, " has no function that makes it"), "set its make");
  ChoiceSpec spec{.name = part.name, .sentence = part.sentence};
  for (const OwnKey& key : part.keys) spec.keys.push_back(spec_of(of, key));
  check_keys_are_free(spec, table);
  return spec;
}

// What is looked up while parts are added is of the tables as they were.
struct ForgottenCatalog {
  ~ForgottenCatalog() { forget_catalog(); }
};

// ------------------------------------------------------------------ models

// Its parts are the module's, so that parameters have the names that the program gave them.
class OwnModule final : public Network {
 public:
  OwnModule(const std::string& name, OwnNetwork own) : name_(name), own_(std::move(own)) {
    if (!own_.module || !own_.forward)
      refuse(cat("the model ", name, " made no module, or no forward"), "set both in OwnNetwork");
    for (const auto& child : own_.module->named_children()) register_module(child.key(), child.value());
    for (const auto& parameter : own_.module->named_parameters(/*recurse=*/false))
      register_parameter(parameter.key(), parameter.value(), parameter.value().requires_grad());
    for (const auto& buffer : own_.module->named_buffers(/*recurse=*/false))
      register_buffer(buffer.key(), buffer.value());
  }

  torch::Tensor forward(torch::Tensor inputs) override {
    const int64_t samples = inputs.size(0);
    return predict({.inputs = std::move(inputs), .samples = samples});
  }
  torch::Tensor predict(const Batch& batch) override {
    torch::Tensor made = call_user("the model " + name_, [&] { return own_.forward(batch); });
    if (made.defined()) return made;
    throw Error(ExitCode::kBrokenContract, "the model " + name_, "its forward returned an undefined tensor",
                "return the predictions");
  }
  void train(bool on) override {
    own_.module->train(on);
    Network::train(on);
  }

  bool is_users_own() const override { return true; }

  // What it computes is known by the program that it is part of.
  std::string fingerprint() const override {
    struct stat program {};
    if (::stat("/proc/self/exe", &program) != 0) return name_;
    return cat(name_, ' ', program.st_size, ' ', program.st_mtim.tv_sec, ' ', program.st_mtim.tv_nsec);
  }

 private:
  const std::string name_;
  const OwnNetwork own_;
};

ModelRow row_of(const OwnModel& own, ChoiceSpec spec) {
  const auto make = [own](const Parameters& parameters, const SampleShape& shape) {
    const DatasetInfo samples{.input_shape = shape.input,
                              .classes = shape.classes,
                              .vocabulary = shape.vocabulary,
                              .inputs = shape.inputs,
                              .input_is_number = shape.input_is_number,
                              .target_is_number = shape.target_is_number};
    return std::make_shared<OwnModule>(own.part.name, call_user("the model " + own.part.name, [&] {
                                         return own.make(values_of(parameters, own.part), samples);
                                       }));
  };
  return {.spec = std::move(spec), .make = make, .is_program = true};
}

// ------------------------------------------------------------------ data sets

class OwnedDataset final : public Dataset {
 public:
  OwnedDataset(const std::string& name, std::unique_ptr<Dataset> own)
      : own_(std::move(own)), checked_(checked_dataset(*own_, "the data set " + name, false)) {}

  int64_t size() const override { return checked_->size(); }
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override {
    return checked_->get(indices, random);
  }
  std::optional<int64_t> cost(int64_t index) const override { return checked_->cost(index); }
  DatasetInfo info() const override { return checked_->info(); }
  bool on_device() const override { return checked_->on_device(); }
  bool changes() const override { return checked_->changes(); }

 private:
  const std::unique_ptr<Dataset> own_;
  const std::unique_ptr<const Dataset> checked_;
};

DatasetRow row_of(const OwnDataset& own, ChoiceSpec spec) {
  return {.spec = std::move(spec), .make = [own](const DatasetRequest& request) -> std::unique_ptr<Dataset> {
            auto data = call_user("the data set " + own.part.name,
                                  [&] { return own.make(values_of(request.parameters, own.part)); });
            if (!data) refuse(cat("the data set ", own.part.name, " was not made"), "return one");
            return std::make_unique<OwnedDataset>(own.part.name, std::move(data));
          }};
}

// ------------------------------------------------------------------ losses, metrics, schedules

[[noreturn]] void refuse_part(const std::string& part, const std::string& what, const std::string& hint) {
  throw Error(ExitCode::kBrokenContract, part, what, hint);
}

class CalledMetric final : public PredictionMetric {
 public:
  CalledMetric(std::string part, std::shared_ptr<const PredictionMetric> own)
      : part_(std::move(part)), own_(std::move(own)) {
    if (!own_) refuse_part(part_, "is null", "make one, or leave it out");
  }
  MetricState measure(const torch::Tensor& prediction, const torch::Tensor& target) const override {
    return call_user(part_, [&] { return own_->measure(prediction, target); });
  }
  std::vector<Figure> figures(const MetricState& whole) const override {
    return call_user(part_, [&] { return own_->figures(whole); });
  }
  std::vector<FigureTable> tables(const MetricState& whole) const override {
    return call_user(part_, [&] { return own_->tables(whole); });
  }

 private:
  const std::string part_;
  const std::shared_ptr<const PredictionMetric> own_;
};

Loss make_loss(const OwnLoss& own, const Parameters& parameters) {
  const std::string part = "the loss " + own.part.name;
  Loss loss = call_user(part, [&] { return own.make(values_of(parameters, own.part)); });
  if (!loss.terms) refuse_part(part, "has no terms", "set Loss::terms");
  loss.terms = [part, terms = std::move(loss.terms)](const torch::Tensor& prediction,
                                                     const torch::Tensor& target) {
    return call_user(part, [&] { return terms(prediction, target); });
  };
  for (auto& metric : loss.metrics)
    metric = std::make_shared<CalledMetric>("a metric of " + part, std::move(metric));
  return loss;
}

ShapeFunction make_schedule(const OwnSchedule& own, const Parameters& parameters) {
  const std::string part = "the schedule " + own.part.name;
  auto factor = call_user(part, [&] { return own.make(values_of(parameters, own.part)); });
  if (!factor) refuse_part(part, "has no function", "return one from make");
  return [part, factor = std::move(factor)](double update, double length) {
    const double value = call_user(part, [&] { return factor(update, length); });
    if (std::isfinite(value) && value >= 0) return value;
    refuse_part(part, cat("gives the factor ", value, " after ", update, " of ", length, " updates"),
                "give what the learning rate is multiplied with: 0 or more");
  };
}

}  // namespace

void add_to_recipes(const Registry& registry) {
  const bool empty = registry.models.empty() && registry.datasets.empty() && registry.losses.empty() &&
                     registry.metrics.empty() && registry.schedules.empty() && registry.optimizers.empty();
  if (empty) return;
  if (catalog_is_made())
    refuse("comes after a recipe was read", "call add_to_recipes before load_recipe and any Trainer");
  const ForgottenCatalog forgotten;
  for (const OwnModel& own : registry.models)
    add_row(row_of(own, spec_of("model", own.part, own.make != nullptr, &Catalog::models)));
  for (const OwnDataset& own : registry.datasets)
    add_row(row_of(own, spec_of("data set", own.part, own.make != nullptr, &Catalog::datasets)));
  for (const OwnLoss& own : registry.losses) {
    add_row(LossRow{.spec = spec_of("loss", own.part, own.make != nullptr, &Catalog::losses),
                    .make = [own](const Parameters& p) { return make_loss(own, p); },
                    .is_users_own = true});
  }
  for (const OwnMetric& own : registry.metrics) {
    if (!own.part.keys.empty() || own.targets.empty())
      refuse(cat("the metric ", own.part.name, " has keys, or says not of which targets it is"),
             "leave the keys out and set targets");
    add_row(MetricRow{spec_of("metric", own.part, own.make != nullptr, &Catalog::metrics), own.targets,
                      [own](const std::string&, const MetricOptions& options) {
                        const std::string part = "the metric " + own.part.name;
                        return std::make_shared<CalledMetric>(
                            part, call_user(part, [&] { return own.make(options); }));
                      }});
  }
  for (const OwnSchedule& own : registry.schedules) {
    add_row(ScheduleRow{spec_of("schedule", own.part, own.make != nullptr, &Catalog::schedules),
                        /*needs_length=*/true, [own](const Parameters& p) { return make_schedule(own, p); }});
  }
  for (const OwnOptimizer& own : registry.optimizers) {
    if (own.make_torch && (own.make || !own.states.empty()))
      refuse(
          cat("the optimizer ", own.part.name, " has both make and make_torch, or states beside the latter"),
          "set make and states, or make_torch alone");
    for (const std::string& state : own.states) {
      check_name(cat("a state of the optimizer ", own.part.name), state);
      if (std::ranges::count(own.states, state) > 1)
        refuse(cat("the optimizer ", own.part.name, " has two states ", state), "rename one of them");
    }
    const bool whole = own.make != nullptr || own.make_torch != nullptr;
    add_row(row_of(own, spec_of("optimizer", own.part, whole, &Catalog::optimizers)));
  }
}

}  // namespace autotrain
