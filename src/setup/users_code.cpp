#include "setup/users_code.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"
#include "data/file_kinds.h"
#include "device/generators.h"
#include "step/changing_buffers.h"
#include "step/graph_leaves.h"

namespace autotrain {
namespace {

[[noreturn]] void fail(const std::string& method, const std::string& what, const std::string& expected) {
  throw Error(ExitCode::kBrokenContract, method, what, expected);
}

std::string sizes_of(const torch::Tensor& tensor) {
  return tensor.defined() ? cat(tensor.sizes()) : "nothing";
}

std::string described(const Batch& batch) {
  return cat("on inputs of ", sizes_of(batch.inputs), " and targets of ", sizes_of(batch.targets));
}

// ------------------------------------------------------------------ tasks

void check_scalar(const std::string& method, const char* name, const torch::Tensor& value) {
  if (!value.defined()) fail(method, cat(name, " is undefined"), "return a scalar tensor");
  if (value.numel() != 1) {
    fail(method, cat(name, " has the sizes ", value.sizes()),
         "return a scalar: the sum over the batch's samples");
  }
}

void check_terms(const std::string& method, const LossTerms& terms) {
  check_scalar(method, "LossTerms::sum", terms.sum);
  check_scalar(method, "LossTerms::weight", terms.weight);
  if (!terms.sum.is_floating_point()) {
    fail(method, cat("LossTerms::sum is of type ", terms.sum.dtype().name()), "return a float32 sum");
  }
  // Some two digits: of a million samples the last thousands would be lost.
  const auto narrow = [&](const char* name, const torch::Tensor& value) {
    if (value.scalar_type() != torch::kBFloat16 && value.scalar_type() != torch::kHalf) return;
    fail(method, cat(name, " is of type ", value.dtype().name(), ", in which sums are rounded away"),
         "add the losses up in float32: losses.to(torch::kFloat32).sum(); execution.precision: fp32 computes "
         "all of it so");
  };
  narrow("LossTerms::sum", terms.sum);
  narrow("LossTerms::weight", terms.weight);
  if (terms.weight.requires_grad()) {
    fail(method, "LossTerms::weight has a gradient", "detach it: the weight counts samples or tokens");
  }
  if (at::GradMode::is_enabled() && !terms.sum.requires_grad()) {
    fail(method, "LossTerms::sum depends on no parameter",
         "compute it from the module's output, without detach() or no-grad guards");
  }
}

// Calls the user's method with a batch.
template <class Call>
auto call_on(const char* method, const Batch& batch, Call call) {
  const at::AutoGradMode as_before(at::GradMode::is_enabled());
  try {
    return call();
  } catch (const std::exception&) {
    rethrow_from_user(method, described(batch));
  }
}

class CheckedTask final : public Task {
  // A first batch that sets weights (actnorm) does so in a trial, which is put back, or in a micro-batch.
  template <class Call>
  auto looked_at(const char* method, const Batch& batch, Call call) {
    auto terms = looked_for_writes(method, batch, call);
    look_for_late_buffers();
    return terms;
  }

  template <class Call>
  auto looked_for_writes(const char* method, const Batch& batch, Call call) {
    if (looks_for_writes_left_ == 0) return call_on(method, batch, call);
    --looks_for_writes_left_;
    const std::vector<int64_t> before = versions();
    auto terms = call_on(method, batch, call);
    if (versions() == before) return terms;
    looks_for_writes_left_ = 0;
    log::warn(
        "trainer",
        cat(method,
            " writes to parameters that are trained: unless it writes the same each time, what is learned "
            "depends on how updates are cut into micro-batches. What a trial writes is put back, and a "
            "member that says that it is done is not. Set them before the trainer is made, or in "
            "Task::passes, which sees the whole update, with a buffer that says that it is done"));
    return terms;
  }

  // One that a forward pass registers and every pass writes to: what it was before a trial, nobody knows. A
  // constant that is made when it is first asked for may be.
  void look_for_late_buffers() {
    if (looks_for_late_left_ == 0) return late_.clear();
    --looks_for_late_left_;
    for (const auto& item : module_->named_buffers()) {
      const torch::Tensor& buffer = item.value();
      if (!buffer.defined() || early_.contains(buffer.unsafeGetTensorImpl())) continue;
      const auto version = static_cast<int64_t>(buffer._version());
      Late& late = late_[buffer.unsafeGetTensorImpl()];
      const bool is_new = !late.buffer.defined();
      if (is_new) late = {.buffer = buffer, .value = buffer.detach().cpu().clone()};
      // What is put back after a trial is written to, and is what it was.
      const bool differs = late.version != version && !late.value.equal(buffer.detach().cpu());
      late.version = version;
      if (is_new || !differs) continue;
      fail("Task::module",
           cat("has a buffer ", item.key(),
               " that a pass registered and later ones write to: what trials wrote to it cannot be put back"),
           "register it when the module is made");
    }
  }

  std::vector<int64_t> versions() const {
    std::vector<int64_t> versions;
    for (const torch::Tensor& each : kept_) versions.push_back(static_cast<int64_t>(each._version()));
    return versions;
  }

 public:
  explicit CheckedTask(std::unique_ptr<Task> task)
      : task_(std::move(task)),
        module_(call_user("Task::module", [&] { return &task_->module(); })),
        makes_passes_(call_user("Task::makes_passes", [&] { return task_->makes_passes(); })) {
    for (const auto& item : module_->named_parameters()) {
      const torch::Tensor& parameter = item.value();
      if (!parameter.requires_grad()) continue;
      if (!learning_.insert(parameter.unsafeGetTensorImpl()).second) continue;
      kept_.push_back(parameter);
      if (!parameter.is_floating_point())
        fail("Task::module", cat("has ", item.key(), " learn, which is of type ", parameter.dtype().name()),
             "keep real and imaginary parts in a float32 parameter, and compute with torch::view_as_complex "
             "of "
             "it");
      check_lies_together(item.key(), parameter);
      if (parameter.dtype() != kept_.front().dtype())
        fail("Task::module",
             cat("has parameters learn in ", kept_.front().dtype().name(), " and in ",
                 parameter.dtype().name(), ": ", item.key()),
             "make all of one type: module.to(torch::kFloat32)");
      sizes_.push_back(parameter.sizes().vec());
    }
    for (const auto& item : module_->named_parameters())
      check_can_be_saved("Task::module", item.key(), item.value());
    for (const auto& item : module_->named_buffers()) {
      check_can_be_saved("Task::module", item.key(), item.value());
      early_.insert(item.value().unsafeGetTensorImpl());
    }
  }

  torch::nn::Module& module() override { return *module_; }

  LossTerms loss(const Batch& batch) override {
    LossTerms terms = looked_at("Task::loss", batch, [&] { return task_->loss(batch); });
    check_terms("Task::loss", terms);
    check_parts("Task::loss", terms.parts);
    if (looks_left_ > 0 && terms.sum.requires_grad()) tell_of_strangers(terms.sum);
    return terms;
  }

  EvaluationTerms evaluate(const Batch& batch) override {
    EvaluationTerms terms = looked_at("Task::evaluate", batch, [&] { return evaluated(batch); });
    check_terms("Task::evaluate", terms.loss);
    check_parts("Task::evaluate", terms.loss.parts);
    for (const Measured& measured : terms.metrics) {
      if (!measured.metric)
        fail("Task::evaluate", "a Measured has no metric", "use mean_figure or make_metric");
    }
    return terms;
  }

  bool makes_passes() const override { return makes_passes_; }

  LossTerms passes(Passes& passes) override {
    LossTerms terms = call_user("Task::passes", [&] { return task_->passes(passes); });
    look_for_late_buffers();
    {
      const torch::NoGradGuard no_gradients;
      check_terms("Task::passes", terms);
    }
    check_parts("Task::passes", terms.parts);
    return terms;
  }

  torch::Tensor penalty() override {
    torch::Tensor penalty = call_user("Task::penalty", [&] { return task_->penalty(); });
    if (!penalty.defined()) return penalty;
    check_scalar("Task::penalty", "the penalty", penalty);
    if (at::GradMode::is_enabled() && !penalty.requires_grad())
      fail("Task::penalty", "depends on no parameter",
           "compute it from parameters, without detach() or no-grad guards; return {} while there is none");
    return penalty;
  }

  bool names_samples() const override {
    return call_user("Task::names_samples", [&] { return task_->names_samples(); });
  }

  bool splittable() const override {
    return call_user("Task::splittable", [&] { return task_->splittable(); });
  }

  std::vector<NamedTensor> state() override {
    std::vector<NamedTensor> state = call_user("Task::state", [&] { return task_->state(); });
    check_state(state);
    return state;
  }

  void begin_update(const UpdateInfo& info) override {
    call_user("Task::begin_update", [&] { task_->begin_update(info); });
    check_parameters();
  }
  void before_step(const UpdateInfo& info, Gradients& gradients) override {
    call_user("Task::before_step", [&] { task_->before_step(info, gradients); });
  }
  void after_step(const UpdateInfo& info) override {
    call_user("Task::after_step", [&] { task_->after_step(info); });
    check_sizes();
  }
  bool idle_begin_update() const override { return task_->idle_begin_update(); }
  bool idle_after_step() const override { return task_->idle_after_step(); }

 private:
  // A buffer that a pass registered, as it was when it was first seen.
  struct Late {
    torch::Tensor buffer, value;
    int64_t version = 0;
  };

  // What the first evaluation, which may have to be made again, draws from and writes to.
  class BeforeFirst {
   public:
    BeforeFirst(Task& task, const Batch& batch) : generators_(batch.inputs.device()), buffers_(task) {
      buffers_.save();
    }
    void put_back() {
      generators_.put_back();
      buffers_.restore();
    }

   private:
    const GeneratorStates generators_;
    ChangingBuffers buffers_;
  };

  // A loss that differentiates, as that of a differential equation does, cannot be computed without
  // gradients.
  EvaluationTerms evaluated(const Batch& batch) {
    if (!differentiates_) {
      std::optional<BeforeFirst> before;
      if (!evaluated_) before.emplace(*task_, batch);
      try {
        EvaluationTerms terms = task_->evaluate(batch);
        evaluated_ = true;
        return terms;
      } catch (const c10::Error& error) {
        if (std::string_view(error.what()).find("does not require grad") == std::string_view::npos) throw;
      }
      if (before) before->put_back();
      log::info("trainer", "Task::evaluate differentiates: evaluations are made with gradients");
      differentiates_ = true;
    }
    const torch::AutoGradMode with_gradients(true);
    EvaluationTerms terms = task_->evaluate(batch);
    for (torch::Tensor* const term : {&terms.loss.sum, &terms.loss.weight})
      if (term->defined()) *term = term->detach();
    for (NamedTensor& part : terms.loss.parts)
      if (part.tensor.defined()) part.tensor = part.tensor.detach();
    for (Measured& measured : terms.metrics) {
      for (torch::Tensor& sum : measured.state.sums) sum = sum.detach();
      for (torch::Tensor& row : measured.state.rows) row = row.detach();
    }
    return terms;
  }

  // The same names at every call, of an update's losses and of an evaluation's: they are the columns of a
  // table.
  void check_parts(const std::string& method, const std::vector<NamedTensor>& parts) {
    std::vector<std::string> names;
    for (const NamedTensor& part : parts) {
      check_scalar(method, "one of LossTerms::parts", part.tensor);
      if (part.name.empty() || std::ranges::count(names, part.name) > 0)
        fail(method,
             part.name.empty() ? "gives a part of the loss no name"
                               : cat("gives two parts of the loss the name ", quote(part.name)),
             "give each a name of its own");
      names.push_back(part.name);
    }
    if (std::ssize(names) > kMostLossParts)
      fail(method, cat("gives ", names.size(), " parts of the loss"),
           cat("give ", kMostLossParts, " at most"));
    std::optional<std::vector<std::string>>& known = known_parts_[method];
    if (!known) known = names;
    if (*known == names) return;
    fail(method,
         cat("gives the parts of the loss ", in_words(names), ", and gave ", in_words(*known), " before"),
         "give the same ones at every call, 0 where one does not apply");
  }

  static std::string in_words(const std::vector<std::string>& names) {
    return names.empty() ? "none" : join(names, ", ");
  }

  // A part that was not registered, whose gradients nobody steps with. A tensor that the loss makes for one
  // pass, such as the point at which it differentiates, has none yet.
  void tell_of_strangers(const torch::Tensor& sum) {
    --looks_left_;
    for (const torch::Tensor& leaf : graph_leaves(sum)) {
      if (!leaf.grad().defined() || learning_.contains(leaf.unsafeGetTensorImpl())) continue;
      looks_left_ = 0;
      return log::warn(
          "trainer",
          cat("Task::loss depends on a tensor of ", leaf.sizes(),
              " that requires a gradient and is no parameter of Task::module(): nobody updates it, and its "
              "gradients pile up. Register the part it is of (register_module) if it is to learn; else "
              "freeze "
              "it: requires_grad_(false)"));
    }
  }

  // Optimizers go through its memory from end to end.
  static void check_lies_together(const std::string& name, const torch::Tensor& parameter) {
    if (parameter.layout() == torch::kStrided && parameter.is_non_overlapping_and_dense()) return;
    fail("Task::module",
         cat("has ", name,
             " learn, whose numbers do not lie together: it is a view of a larger tensor, of one that is "
             "repeated, or sparse"),
         "register a tensor of its own: view.clone()");
  }

  static void check_can_be_saved(const std::string& method, const std::string& name,
                                 const torch::Tensor& tensor) {
    if (!tensor.defined()) return;
    const std::string ended = name + ' ';  // so that no character is cut by its end
    const auto* const bytes = reinterpret_cast<const uint8_t*>(ended.data());
    if (first_invalid_utf8({bytes, ended.size()}) < ended.size() || name == kMetadataName)
      fail(method, cat("has a tensor of the name ", quote(name), ", which no file of tensors can hold"),
           "rename it: any UTF-8 but __metadata__");
    if (tensor.layout() != torch::kStrided || !can_be_saved(tensor.scalar_type()))
      fail(method,
           cat("has ", name, " of ",
               tensor.layout() == torch::kStrided ? std::string(tensor.dtype().name())
                                                  : cat("layout ", tensor.layout()),
               ", which no checkpoint can hold"),
           "keep it as dense numbers of another type, a complex one as torch::view_as_real of it; or in a "
           "member that "
           "is not registered");
    bool repeats = false;
    for (int64_t i = 0; i < tensor.dim(); ++i) repeats |= tensor.size(i) > 1 && tensor.stride(i) == 0;
    if (repeats)
      fail(method, cat("has ", name, ", in which one number stands for several: an expanded tensor"),
           "keep it as expanded.clone()");
  }

  void check_sizes() const {
    for (size_t i = 0; i < kept_.size(); ++i) {
      if (kept_[i].sizes() == c10::IntArrayRef(sizes_[i])) continue;
      fail("Task::module",
           cat("has a parameter of ", kept_[i].sizes(), ", which was of ", c10::IntArrayRef(sizes_[i])),
           "keep the shapes of what learns: what belongs to a parameter, as the optimizer's state, has its "
           "shape");
    }
  }

  // What learns was settled when the trainer was made.
  void check_parameters() const {
    check_sizes();
    for (const auto& item : module_->named_parameters()) {
      const torch::Tensor& parameter = item.value();
      if (!parameter.requires_grad() || learning_.contains(parameter.unsafeGetTensorImpl())) continue;
      fail("Task::module",
           cat("has ", item.key(), " learn, which did not when the trainer was made: nobody would update it"),
           "give the trainer a module in which all that ever learns requires a gradient, and freeze in "
           "Task::begin_update what is not to learn yet: requires_grad_(info.update > 100)");
    }
  }

  // The same tensors as at the first call: whoever saves them or puts them back holds on to these.
  void check_state(const std::vector<NamedTensor>& state) {
    const auto same = [](const NamedTensor& a, const NamedTensor& b) {
      return a.name == b.name && a.tensor.is_same(b.tensor);
    };
    for (const NamedTensor& each : state) {
      if (!each.tensor.defined()) fail("Task::state", quote(each.name) + " is undefined", "make it first");
      check_can_be_saved("Task::state", each.name, each.tensor);
      if (std::ranges::count(state, each.name, &NamedTensor::name) > 1)
        fail("Task::state", "gives two tensors the name " + quote(each.name), "rename one of them");
    }
    if (!known_state_) known_state_ = state;
    if (std::ranges::equal(*known_state_, state, same)) return;
    fail("Task::state", "gives other tensors than at its first call",
         "keep the tensors and change them in place: queue.copy_(next), count.add_(1)");
  }

  std::unique_ptr<Task> task_;
  torch::nn::Module* module_;
  const bool makes_passes_;
  int looks_for_writes_left_ = 64;
  int looks_left_ = 64;  // of a loss's graph: more than a search makes before it goes backward
  int looks_for_late_left_ = 64;
  bool evaluated_ = false;                    // at least once
  bool differentiates_ = false;               // in evaluations too
  std::unordered_set<const void*> learning_;  // parameters
  std::vector<torch::Tensor> kept_;           // the same, so that no other one comes to lie there
  std::vector<std::vector<int64_t>> sizes_;   // theirs
  std::unordered_set<const void*> early_;     // buffers that were there when the trainer was made
  std::unordered_map<const void*, Late> late_;
  std::optional<std::vector<NamedTensor>> known_state_;
  std::map<std::string, std::optional<std::vector<std::string>>> known_parts_;  // by method
};

// ------------------------------------------------------------------ data sets

constexpr int64_t kMostLookedAt = 1'000'000;

std::string indices_text(c10::ArrayRef<int64_t> indices) {
  constexpr size_t kShown = 8;
  std::vector<std::string> shown;
  for (const int64_t index : indices.slice(0, std::min(indices.size(), kShown))) shown.push_back(cat(index));
  return cat(indices.size() == 1 ? "for sample " : "for samples ", join(shown, ", "),
             indices.size() > kShown ? ", …" : "");
}

class CheckedDataset final : public Dataset {
 public:
  CheckedDataset(const Dataset& data, const std::string& name, bool names_samples)
      : data_(data), name_(name), names_samples_(names_samples) {
    size_ = call_user(name_ + "::size", [&] { return data_.size(); });
    if (size_ < 1) fail(name_ + "::size", cat("is ", size_), "give a data set with at least one sample");
    inputs_ = std::max<size_t>(1, info().inputs.size());
    has_costs_ = cost_of(0).has_value();
    const int64_t step = std::max<int64_t>(1, size_ / kMostLookedAt);
    for (int64_t i = step; i < size_; i += step) cost(i);
  }

  int64_t size() const override { return size_; }

  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override {
    const std::string method = name_ + "::get";
    Batch batch = [&] {
      const at::AutoGradMode as_before(at::GradMode::is_enabled());
      try {
        return data_.get(indices, random);
      } catch (const std::exception&) {
        rethrow_from_user(method, indices_text(culprit(indices, random)));
      }
    }();
    check_batch(method, indices, batch);
    if (batch.more_inputs.size() + 1 != inputs_) {
      fail(method,
           cat("gives ", batch.more_inputs.size() + 1, " inputs ", indices_text(indices), "; info() names ",
               inputs_),
           "name all of them in DatasetInfo::inputs, in the order of Batch::inputs and Batch::more_inputs");
    }
    if (names_samples_) name_samples(batch, indices, random);
    return batch;
  }

  std::optional<int64_t> cost(int64_t index) const override {
    const std::optional<int64_t> cost = cost_of(index);
    if (cost.has_value() == has_costs_) return cost;
    fail(name_ + "::cost",
         cat("gives sample ", index, has_costs_ ? " none, and sample 0 one" : " one, and sample 0 none"),
         "give every sample a cost, or none");
  }
  DatasetInfo info() const override {
    return call_user(name_ + "::info", [&] { return data_.info(); });
  }
  bool on_device() const override {
    return call_user(name_ + "::on_device", [&] { return data_.on_device(); });
  }
  bool changes() const override {
    return call_user(name_ + "::changes", [&] { return data_.changes(); });
  }

 private:
  static void name_samples(Batch& batch, c10::ArrayRef<int64_t> indices, const SampleRandom& random) {
    batch.indices = torch::tensor(indices, torch::kInt64);
    batch.keys = torch::empty_like(batch.indices);
    auto* const keys = batch.keys.mutable_data_ptr<int64_t>();
    for (size_t i = 0; i < indices.size(); ++i) keys[i] = static_cast<int64_t>(random.key(i));
  }

  std::optional<int64_t> cost_of(int64_t index) const {
    return call_user(name_ + "::cost", [&] { return data_.cost(index); });
  }

  // The first sample that also fails alone; else all of them.
  c10::ArrayRef<int64_t> culprit(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const {
    for (size_t i = 0; i < indices.size(); ++i) {
      try {
        data_.get(indices.slice(i, 1), random.alone(i));
      } catch (const std::exception&) {
        return indices.slice(i, 1);
      }
    }
    return indices;
  }

  static void check_batch(const std::string& method, c10::ArrayRef<int64_t> indices, const Batch& batch) {
    const auto n = static_cast<int64_t>(indices.size());
    const auto check = [&](const char* what, const torch::Tensor& tensor) {
      if (tensor.dim() > 0 && tensor.size(0) == n) return;
      fail(method, cat("gives ", what, " of ", sizes_of(tensor), ' ', indices_text(indices)),
           cat("the first dimension must be the ", n, " samples that were asked for"));
    };
    if (batch.samples != n) {
      fail(method, cat("gives a batch of ", batch.samples, " samples ", indices_text(indices)),
           cat("set Batch::samples to the ", n, " that were asked for"));
    }
    for (const torch::Tensor& tensor : batch.tensors()) {
      if (!tensor.defined() || tensor.layout() == torch::kStrided) continue;
      fail(method, cat("gives a tensor of layout ", tensor.layout(), ' ', indices_text(indices)),
           "give dense tensors; of a sparse one its indices and values, from which the loss makes it again");
    }
    if (!batch.inputs.defined())
      fail(method, "gives no inputs " + indices_text(indices), "set Batch::inputs");
    check("inputs", batch.inputs);
    if (batch.targets.defined()) check("targets", batch.targets);
    for (const torch::Tensor& input : batch.more_inputs) {
      if (!input.defined())
        fail(method, "gives an undefined one of Batch::more_inputs " + indices_text(indices),
             "give every sample all inputs that info() names");
      check("more_inputs", input);
    }
    for (const NamedTensor& each : batch.shared) {
      if (each.tensor.defined() && std::ranges::count(batch.shared, each.name, &NamedTensor::name) == 1)
        continue;
      fail(method,
           cat(each.tensor.defined() ? "gives two shared tensors the name " : "gives an undefined ",
               quote(each.name), ' ', indices_text(indices)),
           "give each tensor of Batch::shared a name of its own");
    }
  }

  const Dataset& data_;
  const std::string name_;
  const bool names_samples_;
  int64_t size_;
  size_t inputs_;
  bool has_costs_ = false;
};

}  // namespace

std::string words_of_odd_exception() {
  const std::type_info* const type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "threw what is no std::exception";
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &status), &std::free);
  return cat("threw ", name ? name.get() : type->name(), ", which is no std::exception");
}

std::unique_ptr<Task> checked_task(std::unique_ptr<Task> task) {
  if (!task)
    throw Error(ExitCode::kUsage, "Trainer", "has no task: was it moved into another trainer?", "make one");
  return std::make_unique<CheckedTask>(std::move(task));
}

std::unique_ptr<const Dataset> checked_dataset(const Dataset& data, const std::string& name,
                                               bool names_samples) {
  return std::make_unique<CheckedDataset>(data, name, names_samples);
}

}  // namespace autotrain
