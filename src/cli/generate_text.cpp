#include "cli/generate_text.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "autotrain/error.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "predict/prediction_file.h"
#include "report/live_text.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

// What follows an @ names a file, whose last end of a line is the editor's; @@ is an @.
std::string prompt_of(const std::string& given) {
  if (!given.starts_with('@')) return given;
  if (given.starts_with("@@")) return given.substr(1);
  if (given == "@")
    throw Error(ExitCode::kUsage, "--prompt", "names no file after its @",
                "write @FILE; @@ for a text that begins with @");
  std::string text = read_file(given.substr(1));
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

SamplingRule rule_of(const PromptOptions& options) {
  const bool draws = options.top_k || options.top_p || options.seed;
  SamplingRule rule{.temperature = options.temperature.value_or(draws ? 1.0 : 0.0),
                    .top_k = options.top_k,
                    .top_p = options.top_p};
  if (rule.temperature > 0 || !draws) return rule;
  throw Error(ExitCode::kUsage, "--temperature",
              "is 0, which takes the likeliest token always, and nothing is drawn",
              "leave --top-k, --top-p and --seed out, or give a temperature above 0");
}

GenerateOptions options_of(const RunOptions& run, const PromptOptions& prompt, std::optional<int64_t> batch) {
  GenerateOptions options{.run = run.run,
                          .overrides = run.overrides,
                          .tokens = prompt.tokens,
                          .sampling = rule_of(prompt),
                          .seed = prompt.seed.value_or(1),
                          .batch = batch};
  for (const std::string& each : prompt.prompts) options.prompts.push_back(prompt_of(each));
  return options;
}

Json json_of(const GeneratedText& text) {
  return {{"prompt", text.prompt}, {"text", text.text}, {"tokens", text.tokens}, {"ended", text.ended}};
}

Json json_of(const GenerateSummary& s, const RunChoice& run) {
  Json texts = Json::array();
  for (const GeneratedText& text : s.texts) texts.push_back(json_of(text));
  return {{"update", s.update},
          {"weights", run.weights.empty() ? Json(nullptr) : Json(run.weights.string())},
          {"texts", std::move(texts)},
          {"batch", s.batch},
          {"tokens", s.tokens},
          {"seconds", s.seconds},
          {"tokens_per_second", static_cast<double>(s.tokens) / s.seconds},
          {"cache_bytes", s.cache_bytes}};
}

// A model may have learned the bytes that steer a terminal: control characters, also those of two bytes in
// UTF-8, and bytes that are none.
std::string harmless(const std::string& text) {
  std::string valid =
      Json::parse(words_of_json(Json(text))).get<std::string>();  // what is no UTF-8 is replaced
  for (size_t i = 0; i < valid.size(); ++i) {
    const auto c = static_cast<unsigned char>(valid[i]);
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) valid[i] = '?';
    if (c == 0xc2 && i + 1 < valid.size() && static_cast<unsigned char>(valid[i + 1]) < 0xa0)
      valid.replace(i, 2, "?");
  }
  return valid;
}

std::string line_of(size_t sample, const GeneratedText& text) {
  Json line = {{"sample", sample}};
  line.update(json_of(text));
  return words_of_json(line) + "\n";
}

std::string lines_of(const GenerateSummary& s) {
  std::string lines;
  for (size_t i = 0; i < s.texts.size(); ++i) lines += line_of(i, s.texts[i]);
  return lines;
}

void check_output(const fs::path& output, bool overwrite) {
  if (output.empty()) return;
  if (output.extension() != ".jsonl") {
    throw Error(ExitCode::kUsage, "--output", quote(output.string()) + " does not end in .jsonl",
                "generated texts are written as JSON Lines, or printed without --output");
  }
  if (!overwrite && fs::exists(output))
    throw Error(ExitCode::kUsage, output.string(), "is there already", "--overwrite replaces it");
}

std::string texts_for_terminal(const GenerateSummary& s) {
  std::string all;
  for (const GeneratedText& text : s.texts) all += harmless(text.whole) + "\n\n";
  return all;
}

std::string closing_words(const GenerateSummary& s, const GenerateOptions& options, const fs::path& output) {
  const std::string& asked = options.run.checkpoint;
  const bool by_word = asked == "newest" || asked == "best";
  return cat(s.texts.size(), s.texts.size() == 1 ? " sequence · " : " sequences · ", format_count(s.tokens),
             " tokens in ", format_seconds(s.seconds), " · ",
             format_rate(static_cast<double>(s.tokens) / s.seconds), " tokens/s · ", s.batch,
             " at once · cache ", format_bytes(s.cache_bytes), " · by ",
             options.run.weights.empty() ? cat("update ", s.update, by_word ? cat(" (", asked, ")") : "")
                                         : options.run.weights.string(),
             output.empty() ? "" : " · " + output.string(), "\n");
}

}  // namespace

void PromptOptions::declare(CLI::App& app) {
  app.add_option("--prompt", prompts,
                 "Generate: a text to go on from, or @FILE; numbers of tokens where the run learned from "
                 "those; repeatable")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  app.add_option("--generate", tokens, "Tokens that are generated for each prompt")
      ->capture_default_str()
      ->check(no_positive_number, "NUMBER > 0");
  app.add_option(
         "--temperature", temperature,
         "Divides the logits before a token is drawn; 0: the likeliest token always; default: 0, or 1 with "
         "--top-k, --top-p or --seed")
      ->check(number_from(0, 1e6));
  app.add_option("--top-k", top_k, "Draw among the likeliest so many tokens")
      ->check(no_positive_number, "NUMBER > 0");
  app.add_option("--top-p", top_p, "Draw among the likeliest tokens that together have this probability")
      ->check(number_from(1e-9, 1));
  app.add_option("--seed", seed, "Of the draws; default: 1");
}

ExitCode generate_text(const RunOptions& run, const PrintOptions& print, const PromptOptions& prompt,
                       std::optional<int64_t> batch, const fs::path& output, bool overwrite) {
  install_signal_handlers();
  check_output(output, overwrite);
  const auto lock = output.empty() ? nullptr : lock_prediction(output);  // told before hours of generating
  GenerateOptions options = options_of(run, prompt, batch);
  options.output = output;
  LiveText live(stderr);
  log::set_sink(terminal_sink_above(live), print.log_level());
  const GenerateSummary summary = generate(options, [&](int64_t done) {
    if (print.talks() && live.due()) live.show(cat("generated ", format_count(done), " tokens"));
  });
  live.clear();
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
  if (!output.empty()) write_file_atomically(output, lines_of(summary));
  std::string text = print.json ? text_of_json(json_of(summary, options.run)) : "";
  if (!print.json && output.empty()) text += texts_for_terminal(summary);
  if (!print.json) text += closing_words(summary, options, output);
  std::fputs(text.c_str(), stdout);
  return ExitCode::kDone;
}

}  // namespace autotrain
