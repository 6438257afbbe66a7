#include "loop/evaluator.h"

#include <torch/csrc/jit/serialization/pickle.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "autotrain/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "data/join.h"
#include "device/generators.h"
#include "device/memory_phase.h"
#include "plan/load_samples.h"
#include "plan/scopes.h"
#include "report/figures_json.h"
#include "setup/users_code.h"
#include "state/snapshot.h"

namespace autotrain {
namespace {

// Terms may come on either device, and from one batch to the next on another: what is on the host goes to the
// others, which waits for nobody.
void add_to(torch::Tensor& sum, const torch::Tensor& term) {
  torch::Tensor wide = term.to(torch::kFloat64);
  if (sum.defined() && sum.device() != wide.device()) {
    torch::Tensor& here = wide.is_cpu() ? wide : sum;
    here = here.to(wide.is_cpu() ? sum.device() : wide.device(), /*non_blocking=*/true);
  }
  sum = sum.defined() ? sum + wide : wide;
}

// The rows of all batches below each other, which are let go of. Everything is on the host, wherever a batch
// gave it.
MetricState joined(const MetricState& sums, std::vector<std::vector<torch::Tensor>> rows) {
  MetricState whole;
  for (const torch::Tensor& sum : sums.sums) whole.sums.push_back(sum.to(torch::kCPU));
  for (size_t i = 0; !rows.empty() && i < rows[0].size(); ++i) {
    std::vector<torch::Tensor> parts;
    for (auto& batch : rows) parts.push_back(std::move(batch.at(i)));
    whole.rows.push_back(at::cat(parts));
  }
  return whole;
}

// On the host, without the rest of the memory that it is a part of.
torch::Tensor held_alone(const torch::Tensor& rows) {
  const torch::Tensor here = rows.to(torch::kCPU);
  return here.nbytes() == here.storage().nbytes() ? here : here.clone(at::MemoryFormat::Contiguous);
}

[[noreturn]] void fail_evaluate(const std::string& what, const std::string& hint) {
  throw Error(ExitCode::kBrokenContract, "Task::evaluate", what, hint);
}

// Columns of the row that an evaluation's figures stand in.
constexpr std::array<std::string_view, 7> kOwnColumns = {"",      "kind",    "update", "epoch",
                                                         "split", "samples", "seconds"};

void add_figure(Evaluation& found, const Figure& figure) {
  if (std::ranges::find(kOwnColumns, figure.name) != kOwnColumns.end()) {
    fail_evaluate(
        cat("gives a figure the name ", quote(figure.name), ", which an evaluation's row has already"),
        "give it another name");
  }
  if (!found.figures.emplace(figure.name, figure.value).second) {
    fail_evaluate("gives two figures the name " + quote(figure.name), "rename one of them");
  }
  found.kinds[figure.name] = figure.kind;
}

void add_table(Evaluation& found, FigureTable table) {
  if (std::ranges::find(found.tables, table.name, &FigureTable::name) != found.tables.end()) {
    fail_evaluate("gives two tables the name " + quote(table.name), "rename one of them");
  }
  found.tables.push_back(std::move(table));
}

}  // namespace

void EvaluationSums::add(Gathered& gathered, const MetricState& state) {
  if (state.empty()) return;  // the metric does not apply to this batch
  std::vector<torch::Tensor>& sums = gathered.sums.sums;
  if (sums.empty()) sums.resize(state.sums.size());
  if (sums.size() != state.sums.size()) {
    fail_evaluate(cat("gives a metric ", state.sums.size(), " sums, and gave it ", sums.size(), " before"),
                  "give every batch the same ones");
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!state.sums[i].defined())
      fail_evaluate("gives a metric an undefined sum", "give zeros where there is none");
    if (sums[i].defined() && sums[i].sizes() != state.sums[i].sizes()) {
      fail_evaluate(cat("gives a metric a sum of ", state.sums[i].sizes(), ", and gave it one of ",
                        sums[i].sizes(), " before"),
                    "give every batch sums of one shape: torch::bincount(x, {}, classes)");
    }
    add_to(sums[i], state.sums[i]);
  }
  if (state.rows.empty()) return;
  if (!gathered.rows.empty() && gathered.rows[0].size() != state.rows.size()) {
    fail_evaluate(
        cat("gives a metric ", state.rows.size(), " rows, and gave it ", gathered.rows[0].size(), " before"),
        "give every batch the same ones");
  }
  std::vector<torch::Tensor>& rows = gathered.rows.emplace_back();
  for (const torch::Tensor& part : state.rows) {
    if (!part.defined() || part.dim() == 0)
      fail_evaluate("gives a metric a row tensor without rows", "give a row for each sample: [n, …]");
    rows.push_back(held_alone(part));
    const auto row = [&](const std::vector<torch::Tensor>& all) {
      return all[rows.size() - 1].sizes().slice(1);
    };
    if (row(rows) == row(gathered.rows[0])) continue;
    fail_evaluate(
        cat("gives a metric rows of ", row(rows), ", and gave it rows of ", row(gathered.rows[0]), " before"),
        "give every batch rows of one shape");
  }
}

void EvaluationSums::add(const EvaluationTerms& terms) {
  add_to(loss_sum_, terms.loss.sum);
  add_to(loss_weight_, terms.loss.weight);
  if (parts_.empty()) parts_ = std::vector<NamedTensor>(terms.loss.parts.size());
  for (size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].name = terms.loss.parts.at(i).name;
    add_to(parts_[i].tensor, terms.loss.parts[i].tensor);
  }
  if (batches_++ == 0) {
    for (const Measured& measured : terms.metrics) metrics_.push_back({measured.metric, {}, {}});
  }
  if (terms.metrics.size() != metrics_.size()) {
    fail_evaluate(
        cat("measures ", terms.metrics.size(), " metrics, and measured ", metrics_.size(), " before"),
        "measure the same ones of every batch; an empty state leaves one out");
  }
  for (size_t i = 0; i < metrics_.size(); ++i) add(metrics_[i], terms.metrics[i].state);
}

Evaluation EvaluationSums::result() {
  Evaluation found;
  const auto weight = loss_weight_.item<double>();
  add_figure(found, {"loss", loss_sum_.item<double>() / weight, {}});
  for (const NamedTensor& part : parts_)
    add_figure(found, {"loss." + part.name, part.tensor.item<double>() / weight, {}});
  for (Gathered& gathered : metrics_) {
    const MetricState whole = joined(gathered.sums, std::exchange(gathered.rows, {}));
    if (whole.empty()) continue;
    const Metric& metric = *gathered.metric;
    for (const Figure& figure : call_user("Metric::figures", [&] { return metric.figures(whole); }))
      add_figure(found, figure);
    for (FigureTable& table : call_user("Metric::tables", [&] { return metric.tables(whole); }))
      add_table(found, std::move(table));
  }
  return found;
}

namespace {

// What a batch gave as tensors alone, for other ranks: sum and weight of the loss, how many parts it has and
// the lengths of each metric's lists, and these.
std::vector<torch::Tensor> packed(const EvaluationTerms& terms) {
  std::vector<int64_t> lengths = {std::ssize(terms.loss.parts)};
  std::vector<torch::Tensor> tensors = {terms.loss.sum, terms.loss.weight, {}};
  for (const NamedTensor& part : terms.loss.parts) tensors.push_back(part.tensor);
  for (const Measured& measured : terms.metrics) {
    for (const auto* const list : {&measured.state.sums, &measured.state.rows}) {
      lengths.push_back(std::ssize(*list));
      tensors.insert(tensors.end(), list->begin(), list->end());
    }
  }
  tensors[2] = torch::tensor(lengths, torch::kInt64);
  for (torch::Tensor& tensor : tensors) tensor = tensor.detach().to(torch::kCPU);
  return tensors;
}

// The inverse, taking tensors from `from` on. @param own what a batch of this rank gave.
EvaluationTerms unpacked(const std::vector<torch::Tensor>& tensors, size_t& from,
                         const EvaluationTerms& own) {
  EvaluationTerms terms{.loss = {tensors.at(from), tensors.at(from + 1)}};
  const torch::Tensor lengths = tensors.at(from + 2);
  from += 3;
  const auto take = [&](int64_t index) {
    std::vector<torch::Tensor> list;
    for (int64_t left = lengths[index].item<int64_t>(); left > 0; --left) list.push_back(tensors.at(from++));
    return list;
  };
  const std::vector<torch::Tensor> parts = take(0);
  for (size_t i = 0; i < parts.size(); ++i) terms.loss.parts.push_back({own.loss.parts.at(i).name, parts[i]});
  for (int64_t i = 0; i < lengths.numel() / 2; ++i) {
    MetricState state{.sums = take(2 * i + 1)};
    state.rows = take(2 * i + 2);
    terms.metrics.push_back({own.metrics.at(static_cast<size_t>(i)).metric, std::move(state)});
  }
  return terms;
}

// The bytes of all ranks, by way of the device whose tensors they exchange. `bytes` uint8 [n]; sizes were
// told before.
std::vector<torch::Tensor> gathered(Ranks& ranks, const torch::Tensor& bytes,
                                    const std::vector<int64_t>& sizes, torch::Device device) {
  const int64_t world = ranks.place().world, longest = *std::ranges::max_element(sizes);
  const torch::Tensor all = torch::zeros({world * longest}, bytes.options().device(device));
  part_of(all, ranks.place().rank, world).narrow(0, 0, bytes.numel()).copy_(bytes);
  ranks.meet({});  // nobody sends before everybody has the memory
  ranks.exchange().spread(all);
  const torch::Tensor here = all.cpu();
  std::vector<torch::Tensor> parts;
  for (int64_t rank = 0; rank < world; ++rank)
    parts.push_back(part_of(here, rank, world).narrow(0, 0, sizes[static_cast<size_t>(rank)]));
  return parts;
}

// An evaluation that ranks share: piece i is rank i mod ranks'.
class SharedEvaluation {
 public:
  SharedEvaluation(Ranks& ranks, torch::Device device) : ranks_(ranks), device_(device) {}

  void add(const EvaluationTerms& terms) {
    if (batches_ == 0) own_ = terms;
    const std::vector<torch::Tensor> tensors = packed(terms);
    mine_.insert(mine_.end(), tensors.begin(), tensors.end());
    ++batches_;
  }

  // Nothing when a rank was stopped.
  std::optional<Evaluation> result(bool stopped) {
    const std::vector<char> text = torch::jit::pickle_save(mine_);
    const torch::Tensor bytes =
        torch::from_blob(const_cast<char*>(text.data()), {std::ssize(text)}, torch::kUInt8);
    std::vector<int64_t> sizes, batches;
    for (const Ranks::Note& note : ranks_.meet({bytes.numel(), batches_, stopped})) {
      sizes.push_back(note.at(0).get<int64_t>());
      batches.push_back(note.at(1).get<int64_t>());
      stopped |= note.at(2).get<bool>();
    }
    if (stopped) return std::nullopt;
    const std::vector<torch::Tensor> all = gathered(ranks_, bytes, sizes, device_);
    return Evaluation::from_json(
        ranks_.from_first(ranks_.first() ? sum_of(all, batches).to_json() : Ranks::Note()));
  }

 private:
  // Adds the batches in the order in which one rank would have met them.
  Evaluation sum_of(const std::vector<torch::Tensor>& all, const std::vector<int64_t>& batches) const {
    std::vector<std::vector<torch::Tensor>> tensors;
    for (const torch::Tensor& bytes : all) {
      const auto* const begin = reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>());
      tensors.push_back(torch::jit::pickle_load({begin, begin + bytes.numel()}).toTensorVector());
    }
    EvaluationSums sums;
    std::vector<size_t> from(all.size(), 0);
    const int64_t most = *std::ranges::max_element(batches);
    for (int64_t turn = 0; turn < most; ++turn) {
      for (size_t rank = 0; rank < all.size(); ++rank) {
        if (turn < batches[rank]) sums.add(unpacked(tensors[rank], from[rank], own_));
      }
    }
    return sums.result();
  }

  Ranks& ranks_;
  torch::Device device_;
  EvaluationTerms own_;  // of the first batch
  std::vector<torch::Tensor> mine_;
  int64_t batches_ = 0;
};

// Beside a GPU all free cores may load for an evaluation, which takes samples faster than training does. A
// CPU's are at work.
Loader::Options evaluation_loading(const Workbench& bench) {
  Loader::Options options = bench.loader;
  if (options.workers > 0 && !bench.device->torch_device().is_cpu())
    options.workers = std::max(options.workers, bench.most_workers);
  return options;
}

// Every piece of `pieces` whose number is `rank` modulo `world`.
PieceSource every_nth(PieceSource pieces, const Place& place) {
  return [pieces = std::move(pieces), place, number = int64_t{0}]() mutable {
    std::optional<Piece> piece = pieces();
    while (piece && number++ % place.world != place.rank) piece = pieces();
    return piece;
  };
}

}  // namespace

nlohmann::ordered_json Evaluation::to_json() const {
  nlohmann::ordered_json json;
  const FieldWriter write{json};
  write("figures", figures), write("kinds", kinds), write("tables", tables);
  return json;
}

Evaluation Evaluation::from_json(const nlohmann::ordered_json& json) {
  Evaluation found;
  const FieldReader read{json};
  read("figures", found.figures), read("kinds", found.kinds), read("tables", found.tables);
  return found;
}

namespace {

EvaluationTerms terms_of_first(Workbench& bench, const Dataset& data) {
  const EvaluationMode mode(bench.task->module());
  const BufferScope buffers(*bench.task);
  const Batch first = load_samples(bench, data, consecutive(0, 1));
  return evaluate_batch(*bench.task, first, bench.step.options().precision);
}

}  // namespace

FigureKinds evaluation_kinds(Workbench& bench) {
  EvaluationSums sums;
  sums.add(terms_of_first(bench, *bench.data.validation));
  return sums.result().kinds;
}

Gathering gathered_by_metrics(Workbench& bench, const Dataset& data, const std::string& split) {
  Gathering gathering{.split = split, .samples = data.size()};
  for (const Measured& measured : terms_of_first(bench, data).metrics) {
    constexpr int64_t kLargeTable = 1 << 20;  // bytes
    const int64_t rows = counted_product(bytes_of(measured.state.rows), gathering.samples);
    const int64_t sums = bytes_of(measured.state.sums), tables = sums < kLargeTable ? 0 : sums;
    if (rows + tables == 0) continue;
    gathering.bytes += rows;
    gathering.largest = std::max(gathering.largest, rows);
    gathering.tables += tables;
    MetricState whole{.rows = measured.state.rows};
    for (const torch::Tensor& sum : measured.state.sums) whole.sums.push_back(sum.to(torch::kCPU));
    for (torch::Tensor& row : whole.rows) row = row.to(torch::kCPU);
    for (const Figure& figure : call_user("Metric::figures", [&] { return measured.metric->figures(whole); }))
      gathering.figures.push_back(figure.name);
  }
  return gathering;
}

Error too_much_gathered(const Gathering& gathering, const std::string& beside) {
  const bool by_sample = gathering.bytes >= gathering.tables;
  std::vector<std::string> binned;
  for (const std::string& figure : gathering.figures) {
    if (figure == "roc_auc" || figure == "average_precision") binned.push_back(figure + "_binned");
  }
  // Tables of bins take more than the scores of fewer samples than there are bins.
  constexpr int64_t kSamplesOfTables = 10'000;
  const bool smaller = by_sample && !binned.empty() && gathering.samples > kSamplesOfTables;
  return Error(ExitCode::kDoesNotFit, "evaluation.metrics",
               cat(join(gathering.figures, " and "),
                   by_sample ? cat(" keep the predictions for all ", format_count(gathering.samples), " ",
                                   gathering.split, " samples until they are computed, ")
                             : " add tables up that are as large for one sample as for all, ",
                   format_bytes(gathering.at_once()), " at once, ", beside),
               cat(smaller ? cat("take ", join(binned, " and "), ", which keep none") : "leave them out",
                   by_sample ? "; or evaluate fewer samples (limit), or raise" : ", or raise",
                   " execution.memory.budget"));
}

std::optional<Evaluation> evaluate(Workbench& bench, const Dataset& data, int64_t micro_batch,
                                   const std::function<bool(int64_t)>& proceed) {
  const PhaseScope phase(MemoryPhase::kEvaluation);
  const EvaluationMode mode(bench.task->module());
  Ranks& ranks = *bench.ranks;
  share_buffers(bench);
  Loader loader(data, Stream(0, data.size(), /*shuffle=*/false),
                every_nth(one_pass(data, micro_batch), ranks.place()), evaluation_loading(bench));
  EvaluationSums sums;
  SharedEvaluation shared(ranks, bench.device->torch_device());
  // A task draws the same numbers at every evaluation, and so does a run that was resumed.
  const torch::Device device = bench.device->torch_device();
  const GeneratorScope generators(device);
  int64_t done = 0, piece = ranks.place().rank;
  bool stopped = false;
  while (const std::optional<Batch> batch = stopped ? std::nullopt : loader.next()) {
    seed_for_place(device, bench.step.options().seed, PlaceToAct::kEvaluate, piece * micro_batch);
    piece += ranks.place().world;
    const EvaluationTerms terms =
        evaluate_batch(*bench.task, bench.device->upload(*batch), bench.step.options().precision);
    ranks.several() ? shared.add(terms) : sums.add(terms);
    done += batch->samples;
    stopped = !proceed(std::min(done * ranks.place().world, data.size()));
  }
  if (ranks.several()) return shared.result(stopped);
  if (stopped) return std::nullopt;
  return sums.result();
}

}  // namespace autotrain
