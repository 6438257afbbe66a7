#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "autotrain/trainer.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/common_options.h"
#include "cli/local_ranks.h"
#include "comm/launch.h"
#include "comm/ranks.h"
#include "doctor/doctor.h"
#include "measure/links.h"
#include "report/column.h"
#include "report/table.h"
#include "setup/assembly.h"
#include "setup/first_meeting.h"
#include "sweep/sweep_tables.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

std::string per_second(double bytes) {
  return format_bytes(static_cast<int64_t>(bytes)) + "/s";
}

std::string table_of(const MachineFigures& m) {
  TextTable table({});
  table.add_row({"device", cat(m.device, ": ", m.name)});
  table.add_row({"software", m.software});
  table.add_row({"processors", cat(m.processors, " this process may use, ", m.cores, " cores; ", m.threads,
                                   " compute threads")});
  table.add_row({"memory budget", cat(format_bytes(m.budget_bytes), " (", m.budget_source, ")")});
  table.add_row({"copying", cat(per_second(m.copy_bytes_per_second), ", read plus written")});
  for (const auto& level : m.levels) {
    const std::string size = level.bytes > 0 ? " of " + format_bytes(level.bytes) : "";
    table.add_row({cat("reading ", level.name, size), per_second(level.read_rate)});
  }
  for (const auto& rate : m.rates) {
    table.add_row({"matrix product " + rate.precision, format_rate(rate.flops) + "FLOP/s"});
  }
  return table.text();
}

std::string shares_text(const Trial& trial) {
  std::vector<std::string> parts;
  for (const char* activity :
       {"data_wait", "copy", "forward", "backward", "update", "communication", "other"}) {
    const auto share = trial.shares.find(activity);
    if (share == trial.shares.end() || share->second < 0.005) continue;
    parts.push_back(cat(activity, " ", format_percent(share->second, 0)));
  }
  return join(parts, ", ");
}

std::string step_text(const Diagnosis& d) {
  if (!d.step) return "";
  const std::string images = d.step->convolutions ? cat("; images ", to_string(d.plan.memory_format)) : "";
  return cat("\nstep       products ", format_percent(d.step->products_share, 0),
             " of the time, of the rest ", d.step->slowest,
             " most: ", format_percent(d.step->slowest_share, 0), images);
}

std::string table_of(const Diagnosis& d) {
  std::string text = cat("\nplan       ", summary_line(d.plan), "\ntraining   ",
                         format_rate(d.before.samples_per_second), " samples/s: ", shares_text(d.before),
                         step_text(d), "\nloading    ", format_rate(d.loading.samples_per_second),
                         " samples/s alone, ", per_second(d.loading.bytes_per_second),
                         "; a loading thread computes ", format_percent(d.loading.busy_share, 0),
                         " of its time\nverdict    ", d.cause, ": ", d.verdict, "\n\n");
  if (d.cures.empty()) return text + "nothing that the program could change is left to try\n";
  TextTable table({"tried (--set)", "before", "after", "gain", ""});
  for (const Cure& cure : d.cures) {
    const bool failed = !cure.failure.empty();
    table.add_row(
        {join(cure.settings, " "), format_rate(d.before.samples_per_second),
         failed ? "-" : format_rate(cure.after.samples_per_second),
         failed ? "-" : cat(shortest(static_cast<double>(static_cast<int64_t>(cure.gain * 100)) / 100), "×"),
         failed ? first_line(cure.failure) : shares_text(cure.after)});
  }
  return text + table.text();
}

Json json_of(const Trial& trial) {
  return {{"samples_per_second", trial.samples_per_second}, {"shares", trial.shares}};
}

Json json_of(const StepProfile& step, const BatchPlan& plan) {
  return {{"memory_format", to_string(plan.memory_format)},
          {"products_share", step.products_share},
          {"slowest_other", step.slowest},
          {"slowest_other_share", step.slowest_share}};
}

Json json_of(const Diagnosis& d) {
  Json cures = Json::array();
  for (const Cure& cure : d.cures) {
    cures.push_back(
        {{"cause", cure.cause},
         {"set", cure.settings},
         {"gain", cure.gain},
         {"after", cure.failure.empty() ? json_of(cure.after) : Json{{"failure", cure.failure}}}});
  }
  return {{"cause", d.cause},
          {"verdict", d.verdict},
          {"micro_batch", d.plan.micro_batch},
          {"effective_batch", d.plan.effective_batch},
          {"before", json_of(d.before)},
          {"step", d.step ? json_of(*d.step, d.plan) : Json(nullptr)},
          {"loading",
           {{"samples_per_second", d.loading.samples_per_second},
            {"bytes_per_second", d.loading.bytes_per_second},
            {"busy_share", d.loading.busy_share}}},
          {"cures", std::move(cures)}};
}

// The log of every trial's plan would bury the progress, so only the doctor's own lines are shown.
void show_progress_only() {
  log::set_sink(
      [show = log::terminal_sink()](const log::Record& record) {
        if (record.room == "doctor" || record.level == log::Level::kError) show(record);
      },
      log::Level::kInfo);
}

struct DoctorOptions : RecipeOptions, PrintOptions, RanksOption {
  double seconds = 3;
};

std::string table_of(const LinkFigures& links) {
  TextTable sums({"exact sum of gradients", "time", "each rank sends"});
  for (const LinkFigures::Sum& sum : links.sums)
    sums.add_row({format_bytes(sum.bytes), milliseconds(sum.seconds) + " ms", per_second(sum.rate)});
  TextTable ranks({"rank", "host", "matrix products, all at once"});
  for (size_t rank = 0; rank < links.ranks.size(); ++rank) {
    ranks.add_row(
        {std::to_string(rank), links.ranks[rank].host, format_rate(links.ranks[rank].flops) + "FLOP/s"});
  }
  const int64_t straggler = straggler_of(links.ranks);
  const std::string verdict =
      straggler < 0 ? "no rank computes clearly less than the others"
                    : cat("rank ", straggler, " on ", links.ranks[static_cast<size_t>(straggler)].host,
                          " computes clearly less than the others, who will wait for it");
  return cat("an exchange of notes takes ", milliseconds(links.meeting_seconds), " ms; an update has two\n\n",
             sums.text(), "\n", ranks.text(), "\nverdict    ", verdict, "\n");
}

// What is between the ranks; whether a recipe's training is slow beside them is said by its run.
ExitCode run_doctor_of_ranks(const DoctorOptions& options, const Launch& launch) {
  if (!options.config.empty()) {
    throw Error(ExitCode::kUsage, "--config", "is examined on one rank, and there are several",
                "leave --config out to measure what is between ranks, or --ranks to examine the recipe");
  }
  const auto ranks = Ranks::open(launch);
  const std::unique_ptr<Device> device = open_run_device({}, {}, launch.place);
  std::vector<DeviceOfRank> devices;
  for (const auto& note : ranks->meet({{"host", ranks->place().host}, {"device", device->bus_id()}}))
    devices.push_back({note.at("host").get<std::string>(), note.at("device").get<std::string>()});
  refuse_shared_gpus(devices);
  ranks->connect(device->torch_device());
  const LinkFigures links = measure_links(*ranks, *device);
  if (!ranks->first()) return ExitCode::kDone;
  const std::string text = options.json ? text_of_json({{"links", to_json(links)}}) : table_of(links);
  std::fputs(text.c_str(), stdout);
  return ExitCode::kDone;
}

ExitCode run_doctor(const DoctorOptions& options) {
  if (options.starts_them()) return run_local_ranks(options.ranks, options.config);
  install_signal_handlers();
  const Launch launch = detect_launch(process_environment());
  if (launch.place.world > 1) return run_doctor_of_ranks(options, launch);
  log::set_sink(log::terminal_sink(), options.talks() ? log::Level::kInfo : log::Level::kWarning);
  const bool has_recipe = !options.config.empty();
  const Recipe recipe = has_recipe ? options.load() : Recipe{};
  Recipe unbounded = recipe;  // the machine is measured, not the part of it that the recipe may use
  unbounded.execution.memory.budget = {};
  const MachineFigures machine = measure_machine(*open_run_device(unbounded));
  if (!options.json) std::fputs(table_of(machine).c_str(), stdout), std::fflush(stdout);
  Json out = {{"machine", to_json(machine)}};
  if (has_recipe) {
    show_progress_only();
    const Diagnosis found = diagnose({.config = options.config,
                                      .overrides = options.overrides,
                                      .seconds = options.seconds,
                                      .progress =
                                          [&](const std::string& step) {
                                            if (options.talks()) log::info("doctor", step);
                                          }},
                                     machine);
    if (!options.json) std::fputs(table_of(found).c_str(), stdout);
    out["recipe"] = json_of(found);
  }
  if (options.json) std::fputs(text_of_json(out).c_str(), stdout);
  return ExitCode::kDone;
}

std::function<ExitCode()> declare_doctor(CLI::App& app) {
  const auto options = std::make_shared<DoctorOptions>();
  options->RecipeOptions::declare(app);
  options->PrintOptions::declare(app);
  options->RanksOption::declare(app);
  app.add_option("--seconds", options->seconds, "Length of each trial")
      ->check(number_from(0.1, 3600))
      ->capture_default_str();
  return [options] { return run_doctor(*options); };
}

constexpr const char* kDoctorExamples = R"(
Examples:
  autotrain doctor
      what the machine can do: memory, products, bandwidth, precisions
  autotrain doctor --config R.yaml
      what bounds the recipe's training here, which cures were tried, and what
      each gained
  autotrain doctor --config R.yaml --seconds 10 --json
      longer trials, where the machine is unsteady
  autotrain doctor --ranks 2
      what passes between ranks, and which of them is slow; on several machines:
      by torchrun or srun
)";

}  // namespace

extern const Command kDoctor;
const Command kDoctor = {"doctor", "Measure the machine; with a recipe, say what bounds it", kDoctorExamples,
                         declare_doctor};

}  // namespace autotrain
