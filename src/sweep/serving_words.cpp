#include <algorithm>
#include <tuple>

#include "base/text.h"
#include "base/units.h"
#include "report/column.h"
#include "sweep/serving.h"

namespace autotrain {
namespace {

std::string percentile_name(double percentile) {
  return "p" + brief(percentile, 5);
}

std::string batches_words(const Serving& serving) {
  return serving.most == 1 ? "batches of 1" : cat("batches of at most ", serving.most);
}

// What a line is beside its batches and its window; "": one server, one thing after the other.
std::string server_words(const Serving& serving) {
  std::string words;
  if (serving.servers > 1) words = cat(serving.servers, serving.processes ? " processes" : " threads");
  if (!serving.load_ahead) return words;
  return words.empty() ? "loading ahead" : words + ", loading ahead";
}

struct HeldLine {
  const ServingLine* line = nullptr;
  const ServingPoint* point = nullptr;
};

// The lines that hold the bound, the largest rate first; of one rate, as of a trace, that with the smaller
// latency, and of the same that which can serve more.
std::vector<HeldLine> held_lines(const ServingSweep& sweep, const ServingVariant& variant) {
  std::vector<HeldLine> held;
  for (const ServingLine& line : variant.lines) {
    if (const ServingPoint* const point = held_point(sweep, line)) held.push_back({&line, point});
  }
  std::ranges::stable_sort(held, {}, [](const HeldLine& h) {
    return std::tuple(-h.point->rate, *h.point->asked, -h.line->capacity.value_or(0));
  });
  return held;
}

std::string advice_words(const Serving& serving) {
  const std::string wait = serving.window_ms > 0 && serving.most > 1
                               ? cat(" and wait ", shortest(serving.window_ms), " ms for them to fill")
                               : "";
  const std::string servers = server_words(serving);
  return cat("take ", batches_words(serving), wait, servers.empty() ? "" : ", by " + servers);
}

std::string rate_words(const ServingSweep& sweep, const ServingPoint& p) {
  return cat(format_rate(p.rate), " samples/s with a ", percentile_name(sweep.percentile), " of ",
             milliseconds(*p.asked), " ms");
}

// What the smallest batches hold, where that is another line.
std::string beside_the_smallest(const std::vector<HeldLine>& held, const ServingVariant& variant) {
  const auto smallest =
      std::ranges::min_element(variant.lines, {}, [](const ServingLine& line) { return line.serving.most; });
  if (smallest->serving.most == held[0].line->serving.most) return "";
  const auto found = std::ranges::find_if(
      held, [&](const HeldLine& h) { return h.line->serving.most == smallest->serving.most; });
  const std::string who = "; " + batches_words(smallest->serving);
  return found == held.end() ? who + " hold no rate that was tried"
                             : cat(who, " hold ", format_rate(found->point->rate), " samples/s");
}

// The best line of each kind of servers, where there are several.
std::string beside_other_servers(const std::vector<HeldLine>& held) {
  std::vector<std::string> kinds, parts;
  for (const HeldLine& h : held) {
    const std::string words = server_words(h.line->serving);
    if (std::ranges::count(kinds, words) > 0) continue;
    kinds.push_back(words);
    parts.push_back(cat(words.empty() ? "one server" : words, " ", format_rate(h.point->rate), " samples/s"));
  }
  return parts.size() > 1 ? "the most that each kind of server holds: " + join(parts, "; ") : "";
}

std::string nothing_holds(const ServingSweep& sweep, const ServingVariant& variant) {
  const ServingPoint* fastest = nullptr;
  const ServingLine* of = nullptr;
  for (const ServingLine& line : variant.lines) {
    for (const ServingPoint& p : line.points) {
      if (!p.asked || (fastest != nullptr && *p.asked >= *fastest->asked)) continue;
      fastest = &p;
      of = &line;
    }
  }
  const std::string bound = cat("nothing that was tried holds ", shortest(*sweep.latency_ms), " ms at ",
                                percentile_name(sweep.percentile));
  if (fastest == nullptr) return bound;
  return cat(bound, "; the least is ", milliseconds(*fastest->asked), " ms, at ", format_rate(fastest->rate),
             " samples/s by ", words_of(of->serving));
}

// Whether one point serves more than the other, or as much with a smaller latency.
bool serves_more(const ServingPoint& one, const ServingPoint& other) {
  return std::tuple(-one.rate, *one.asked) < std::tuple(-other.rate, *other.asked);
}

// Without a bound: the largest rate at which the queue did not grow.
std::string most_served(const ServingSweep& sweep, const ServingVariant& variant) {
  const ServingPoint* most = nullptr;
  const ServingLine* of = nullptr;
  for (const ServingLine& line : variant.lines) {
    for (const ServingPoint& p : line.points) {
      if (!p.asked || (most != nullptr && !serves_more(p, *most))) continue;
      most = &p;
      of = &line;
    }
  }
  if (most == nullptr) return "the queue grew to the end at every rate";
  return cat("the largest rate at which the queue did not grow is ", rate_words(sweep, *most), ", by ",
             words_of(of->serving), "; --latency-ms looks for what holds a bound");
}

// The stable point of highest load beside the formula.
std::string law_sentence(const ServingVariant& variant) {
  const ServingPoint* highest = nullptr;
  for (const ServingLine& line : variant.lines) {
    for (const ServingPoint& p : line.points) {
      if (p.md1_waiting && p.waiting && (highest == nullptr || p.rate > highest->rate)) highest = &p;
    }
  }
  if (highest == nullptr) return "";
  return cat("one by one, at ", format_rate(highest->rate), " samples/s, requests wait ",
             milliseconds(*highest->waiting),
             " ms in the mean; with equally long service (M/D/1) it would be ",
             milliseconds(*highest->md1_waiting), " ms");
}

std::string unstable_sentence(const ServingVariant& variant) {
  int64_t unstable = 0, all = 0;
  for (const ServingLine& line : variant.lines) {
    for (const ServingPoint& p : line.points) {
      if (!p.failure.empty()) continue;
      ++all;
      unstable += p.unstable ? 1 : 0;
    }
  }
  if (unstable == 0) return "";
  return cat(
      "at ", unstable, " of ", all,
      " points the queue grew to the end, or all came before one was answered: times there would only tell "
      "how long was measured");
}

}  // namespace

std::string words_of(const Serving& serving) {
  std::string words = batches_words(serving);
  if (serving.window_ms > 0 && serving.most > 1)
    words += cat(", waiting ", shortest(serving.window_ms), " ms");
  const std::string servers = server_words(serving);
  return servers.empty() ? words : words + ", " + servers;
}

const ServingPoint* held_point(const ServingSweep& sweep, const ServingLine& line) {
  if (!sweep.latency_ms) return nullptr;
  const ServingPoint* held = nullptr;
  for (const ServingPoint& p : line.points) {  // ascending: what holds beyond one that does not is luck
    if (!p.holds(*sweep.latency_ms / 1e3)) break;
    held = &p;
  }
  return held;
}

std::string label_of(const ServingSweep& sweep, const ServingVariant& variant) {
  return sweep.key.empty() ? sweep.name : cat(sweep.key, "=", variant.value);
}

std::vector<std::string> sentences_of(const ServingSweep& sweep, const ServingVariant& variant) {
  std::vector<std::string> sentences;
  if (!variant.failure.empty()) sentences.push_back("not measured: " + variant.failure);
  const bool measured =
      std::ranges::any_of(variant.lines, [](const ServingLine& line) { return !line.points.empty(); });
  if (!measured) return sentences;
  if (!sweep.latency_ms) {
    sentences.push_back(most_served(sweep, variant));
  } else if (const auto held = held_lines(sweep, variant); held.empty()) {
    sentences.push_back(nothing_holds(sweep, variant));
  } else {
    sentences.push_back(cat("within ", shortest(*sweep.latency_ms),
                            " ms: ", advice_words(held[0].line->serving), ": ",
                            rate_words(sweep, *held[0].point), beside_the_smallest(held, variant)));
    if (std::string kinds = beside_other_servers(held); !kinds.empty()) sentences.push_back(kinds);
  }
  for (std::string sentence : {law_sentence(variant), unstable_sentence(variant)}) {
    if (!sentence.empty()) sentences.push_back(std::move(sentence));
  }
  return sentences;
}

}  // namespace autotrain
