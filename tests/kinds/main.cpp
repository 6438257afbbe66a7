// The table of kinds of research: how far each program is from a loop that is written by hand, and whether a
// size that is searched, a resume and a second rank change a bit. Fails where something does not hold.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/random.h"
#include "base/text.h"
#include "comm/meeting_place.h"
#include "data/stream.h"
#include "kinds/kind.h"

namespace kinds {
namespace fs = std::filesystem;

namespace {

// Single precision, ten updates of rounding apart.
constexpr double kRounding = 5e-5;

std::vector<Kind>& registered() {
  static std::vector<Kind> kinds;
  return kinds;
}

int64_t failures = 0;

std::string checked(bool holds, const std::string& text) {
  failures += holds ? 0 : 1;
  return holds ? text : "**" + text + "**";
}

Program made(const Kind& kind) {
  torch::manual_seed(1);
  return kind.make();
}

int64_t lines_of(const Kind& kind) {
  std::ifstream file(kind.file);
  int64_t lines = 0;
  bool counts = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("// program"))
      counts = true;
    else if (line.starts_with("// by hand"))
      counts = false;
    else if (counts && !line.empty())
      ++lines;
  }
  return lines;
}

double gap(const torch::nn::Module& a, const torch::nn::Module& b) {
  double most = 0;
  const auto ours = a.parameters(), theirs = b.parameters();
  for (size_t i = 0; i < ours.size(); ++i)
    most = std::max(most, (ours[i] - theirs[i]).abs().max().item<double>());
  return most;
}

// Of everything that is trained or kept.
uint64_t digest(Task& task) {
  uint64_t hash = fnv1a("");
  const auto add = [&](const torch::Tensor& tensor) {
    const torch::Tensor dense = tensor.detach().contiguous();
    hash = fnv1a({static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()}, hash);
  };
  for (const torch::Tensor& each : task.module().parameters()) add(each);
  for (const torch::Tensor& each : task.module().buffers()) add(each);
  for (const NamedTensor& each : task.state()) add(each.tensor);
  return hash;
}

struct Run {
  int64_t micro = 8;  // 0: searched
  fs::path folder = {};
  int64_t stop = 0;  // after so many updates; 0: at the end
  bool resume = false;
  int64_t lanes = 0;
};

struct Fitted {
  std::shared_ptr<Program> program;  // without its task
  std::unique_ptr<Trainer> trainer;
  Task* task = nullptr;
};

Fitted fit(const Kind& kind, const Run& run) {
  Fitted fitted{.program = std::make_shared<Program>(made(kind)), .trainer = nullptr, .task = nullptr};
  Program& program = *fitted.program;
  Recipe r = program.recipe;
  if (run.micro > 0) r.execution.micro_batch = run.micro;
  if (run.micro == 0) r.batch.limits.max_micro_batch = 16;
  if (run.lanes > 0) r.execution.lanes = run.lanes;
  fitted.task = program.task.get();
  fitted.trainer = std::make_unique<Trainer>(r, std::move(program.task), *program.data,
                                             TrainerOptions{.output = run.folder,
                                                            .write_files = !run.folder.empty(),
                                                            .resume = run.resume,
                                                            .optimizers = program.optimizers});
  fitted.trainer->on_update([&run](const UpdateRecord& record) {
    return record.update == run.stop ? Flow::kStop : Flow::kContinue;
  });
  fitted.trainer->fit();
  return fitted;
}

std::string file_of(const fs::path& run) {
  std::ifstream file(run / "checkpoints" / ("update-" + std::to_string(kUpdates)) / "model.safetensors",
                     std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool alike_on_ranks(const Kind& kind, const fs::path& folder) {
  std::vector<std::string> files;
  for (const int64_t world : {1, 2}) {
    const fs::path run = folder / cat("ranks-", world);
    MeetingPlace meeting;
    const auto work = [&](int64_t) { return fit(kind, {.folder = run, .lanes = 2}), 0; };
    for (const auto& rank : meeting.start_ranks(
             world, work, [&](int64_t rank) { return folder / cat("log-", world, "-", rank); }))
      if (rank->wait() != 0) return false;
    files.push_back(file_of(run));
  }
  return !files[0].empty() && files[0] == files[1];
}

void print_row(const Kind& kind, const fs::path& folder) {
  fs::create_directories(folder);
  std::string row = cat("| ", kind.name, " | ", lines_of(kind), " |");
  // Ranks first: a process is copied before threads of LibTorch's compute in it.
  const std::string ranks = !kind.ranks ? "one rank" : checked(alike_on_ranks(kind, folder), "same bits");
  Program hand = made(kind);
  kind.by_hand(hand);
  for (const int64_t micro : {kBatch, kBatch / 4}) {
    const Fitted own = fit(kind, {.micro = micro});
    const double apart = gap(own.task->module(), hand.module());
    char text[32];
    std::snprintf(text, sizeof(text), "%.1e", apart);
    row += cat(" ", checked(apart < kRounding, text), " |");
  }
  const Fitted searched = fit(kind, {.micro = 0});
  const int64_t found = searched.trainer->plan().micro_batch;
  const bool typed = digest(*fit(kind, {.micro = found}).task) == digest(*searched.task);
  row += cat(" ", checked(typed, "same bits"), " |");
  const uint64_t straight = digest(*fit(kind, {.folder = folder / "straight"}).task);
  fit(kind, {.folder = folder / "stopped", .stop = 4});
  const bool resumed = digest(*fit(kind, {.folder = folder / "stopped", .resume = true}).task) == straight;
  row += cat(" ", checked(resumed, "same bits"), " | ", ranks, " |\n");
  std::cout << row << std::flush;
}

}  // namespace

const std::vector<Kind>& all() {
  return registered();
}

Register::Register(Kind kind) {
  registered().push_back(std::move(kind));
}

Recipe Program::plain_recipe(const std::string& optimizer, double lr) {
  Recipe r;
  r.name = "kind";
  r.batch.effective = kBatch;
  r.batch.lr_rule = "none";
  r.stop = {};
  r.stop.updates = kUpdates;
  r.execution.precision = Precision::kFp32;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  r.execution.memory.budget =
      *Budget::parse("4GiB");  // a sanitizer's own memory counts as what libraries take
#else
  r.execution.memory.budget = *Budget::parse("64MiB");
#endif
  r.execution.search.plan_cache = false;
  r.execution.threads = 1;
  r.report = {.html = false, .csv = false, .tensorboard = false};
  r.optimizer.clip_norm = std::nullopt;
  r.schedule = {};
  r.schedule.warmup = {};
  if (optimizer.empty()) return r;  // the program's own
  r.optimizer.algorithm = {optimizer, {}};
  if (optimizer == "sgd") r.optimizer.algorithm.parameters["momentum"] = 0.9;
  r.optimizer.lr = lr;
  r.optimizer.weight_decay = 0;
  return r;
}

Batch Program::batch(int64_t update) const {
  const auto seed = static_cast<uint64_t>(recipe.seed);
  const Stream stream(seed, data->size(), recipe.data.shuffle);
  const Piece piece = consecutive((update - 1) * kBatch, kBatch);
  const Stream::Draw drawn = stream.draw(piece);
  const SampleRandom random(seed, drawn.indices, drawn.epochs, piece.positions);
  Batch batch = data->get(drawn.indices, random);
  batch.indices = torch::tensor(drawn.indices, torch::kInt64);
  batch.keys = torch::empty_like(batch.indices);
  for (size_t i = 0; i < drawn.indices.size(); ++i)
    batch.keys[static_cast<int64_t>(i)] = static_cast<int64_t>(random.key(i));
  return batch;
}

}  // namespace kinds

int main(int argc, char** argv) {
  using namespace kinds;
  namespace fs = std::filesystem;
  log::set_sink(log::terminal_sink(), log::Level::kError);
  const fs::path folder = fs::temp_directory_path() / cat("kinds-", ::getpid());
  std::cout << "| kind | lines | one piece | four pieces | searched = typed | resumed = straight | two ranks "
               "= one |\n"
               "| --- | --- | --- | --- | --- | --- | --- |\n";
  std::vector<Kind> sorted = all();
  std::ranges::sort(sorted, {}, &Kind::name);
  for (const Kind& kind : sorted) {
    if (argc > 1 &&
        std::ranges::none_of(argv + 1, argv + argc, [&](const char* name) { return kind.name == name; }))
      continue;
    try {
      print_row(kind, folder / kind.name);
    } catch (const std::exception& error) {
      std::cout << "| " << kind.name << " | **" << error.what() << "**\n";
      ++failures;
    }
    fs::remove_all(folder);
  }
  return failures == 0 ? 0 : 1;
}
