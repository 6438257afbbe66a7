#include "model/graph_recompute.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "autotrain/error.h"
#include "model/graph_uses.h"

namespace autotrain::graph {
namespace {

// What a graph says of memory: values that may share it are one place.
class Places {
 public:
  Places(const Graph& graph, const GraphCosts& costs) : graph_(graph) {
    for (size_t value = 0; value < given_values(); ++value) fixed_.insert(place_of(value));
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      for (const size_t value : node.writes) {
        // Running statistics are given; what is kept up in them is left out where an operator runs again.
        written_[place_of(value)] = i;
        if (i >= graph.backward_begin) fixed_.insert(place_of(value));
      }
      if (i < graph.backward_begin) note_makers(i);
    }
    fixed_.insert(place_of(graph.output));
    if (graph.prediction_beside) fixed_.insert(place_of(*graph.prediction_beside));
    for (const auto& gradient : graph.gradients) {
      if (gradient) fixed_.insert(place_of(*gradient));
    }
    find_kept(costs);
    note_bytes_and_last_uses(costs);
  }

  size_t place_of(size_t value) const { return graph_.memory[value]; }

  // Whether it is there in the backward half whatever is computed again.
  bool fixed(size_t place) const { return fixed_.contains(place); }

  // What the forward half makes and the backward half takes, with its bytes.
  const std::map<size_t, int64_t>& kept() const { return kept_; }
  bool kept(size_t place) const { return kept_.contains(place); }

  // The size of the memory in which its values lie.
  int64_t bytes(size_t place) const {
    const auto found = bytes_.find(place);
    return found == bytes_.end() ? 0 : found->second;
  }

  // Whether this operator of the backward half, or one behind it, takes a value of the place.
  bool used_from(size_t node, size_t place) const {
    const auto found = last_uses_.find(place);
    return found != last_uses_.end() && found->second >= node;
  }

  // The places of which no operator behind this one, of the backward half, takes a value.
  const std::vector<size_t>& last_used_by(size_t node) const { return last_used_[node]; }

  int64_t kept_bytes(const std::set<size_t>& without) const {
    int64_t sum = 0;
    for (const auto& [place, bytes] : kept_) sum += without.contains(place) ? 0 : bytes;
    return sum;
  }

  // The operators of the forward half that make a value of the place or write to it, in their order.
  const std::vector<size_t>& makers(size_t place) const {
    static const std::vector<size_t> none;
    const auto found = makers_.find(place);
    return found == makers_.end() ? none : found->second;
  }

  bool written_after(size_t place, size_t node) const {
    const auto found = written_.find(place);
    return found != written_.end() && found->second > node;
  }

  // Whether an operator may run once more: what it writes to is what is made again, or only kept up.
  bool may_repeat(size_t number, size_t place) const {
    const Node& node = graph_.nodes[number];
    if (node.draws) return false;
    return std::ranges::all_of(
        node.writes, [&](size_t value) { return place_of(value) == place || is_statistic(node, value); });
  }

  static bool is_statistic(const Node& node, size_t value) {
    return std::ranges::any_of(node.statistics, [&](size_t argument) {
      return node.arguments[argument].takes_value() && node.arguments[argument].value == value;
    });
  }

 private:
  size_t given_values() const { return graph_.given.count_in_forward() + (graph_.given.training ? 1 : 0); }

  void note_makers(size_t number) {
    std::set<size_t> places;
    const Node& node = graph_.nodes[number];
    for (const auto& result : node.results) {
      if (result && graph_.is_tensor[*result]) places.insert(place_of(*result));
    }
    for (const size_t value : node.writes) {
      if (!is_statistic(node, value)) places.insert(place_of(value));
    }
    for (const size_t place : places) makers_[place].push_back(number);
  }

  void find_kept(const GraphCosts& costs) {
    for (size_t i = graph_.backward_begin; i < graph_.nodes.size(); ++i) {
      for_each_value(graph_.nodes[i], [&](size_t value) {
        const size_t place = place_of(value);
        if (!graph_.is_tensor[value] || fixed(place) || makers(place).empty()) return;
        int64_t& bytes = kept_[place];
        bytes = std::max(bytes, costs.bytes[value]);
      });
    }
  }

  void note_bytes_and_last_uses(const GraphCosts& costs) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      for (const auto& result : node.results) {
        if (!result || !graph_.is_tensor[*result]) continue;
        int64_t& bytes = bytes_[place_of(*result)];
        bytes = std::max(bytes, costs.bytes[*result]);
        if (i >= graph_.backward_begin) last_uses_[place_of(*result)] = i;  // where nobody takes it
      }
      for_each_value(node, [&](size_t value) {
        if (i >= graph_.backward_begin) last_uses_[place_of(value)] = i;
      });
    }
    last_used_.resize(graph_.nodes.size());
    for (const auto& [place, node] : last_uses_) last_used_[node].push_back(place);
  }

  const Graph& graph_;
  std::set<size_t> fixed_;
  std::map<size_t, int64_t> kept_;
  std::map<size_t, size_t> written_;  // the last operator that writes to a place
  std::map<size_t, std::vector<size_t>> makers_;
  std::map<size_t, int64_t> bytes_;
  std::map<size_t, size_t> last_uses_;          // of places, in the backward half
  std::vector<std::vector<size_t>> last_used_;  // the same, by node
};

// Calls `use` with every tensor among what the node reads, running statistics left out.
template <class Use>
void for_each_tensor(const Graph& graph, const Node& node, Use use) {
  for_each_value(node, [&](size_t value) {
    if (graph.is_tensor[value] && !Places::is_statistic(node, value)) use(value);
  });
}

// Writes the graph in which the values of some places are computed again, or only counts what that takes.
class Rewriter {
 public:
  // @param again places to make again. @param out null: to count only.
  Rewriter(const Graph& graph, const GraphCosts& costs, const Places& places, const std::set<size_t>& again,
           Graph* out = nullptr)
      : graph_(graph), costs_(costs), places_(places), again_(again), out_(out) {}

  // False where a value cannot be had again.
  bool write() {
    if (out_ != nullptr) {
      *out_ = graph_;
      out_->nodes.resize(graph_.backward_begin);
    }
    for (const auto& [place, bytes] : places_.kept()) {
      if (!again_.contains(place)) hold(place);
    }
    for (size_t i = graph_.backward_begin; i < graph_.nodes.size(); ++i) {
      at_ = i;
      bool possible = true;
      for_each_tensor(graph_, graph_.nodes[i], [&](size_t value) {
        const size_t place = places_.place_of(value);
        possible = possible && (available(place) || make_again(place));
      });
      if (!possible) return false;
      if (out_ != nullptr) out_->nodes.push_back(with_copies(graph_.nodes[i], copies_));
      for (const auto& result : graph_.nodes[i].results) {
        if (result && graph_.is_tensor[*result]) hold(places_.place_of(*result));
      }
      for (const size_t place : places_.last_used_by(i)) {
        if (held_.erase(place) > 0) held_bytes_ -= places_.bytes(place);
      }
    }
    if (out_ != nullptr) find_last_uses(*out_);
    return true;
  }

  double work() const { return work_; }

  // The most that the backward half holds at a time of what is kept, made again and made by it, gradients of
  // parameters left out.
  int64_t peak() const { return peak_; }
  int64_t operators() const { return operators_; }

 private:
  // Whether the backward half has it: it is given or kept, made there, or was made again before.
  bool available(size_t place) const {
    return places_.fixed(place) || done_.contains(place) || places_.makers(place).empty() ||
           (places_.kept(place) && !again_.contains(place));
  }

  // Adds the operators that make a place's values, and before them those that make what they need. In their
  // order each gets what it got, also where one writes over what another made.
  bool collect(size_t place, std::set<size_t>& nodes, std::set<size_t>& made) {
    if (!made.insert(place).second) return true;
    for (const size_t number : places_.makers(place)) {
      if (!places_.may_repeat(number, place)) return false;
      nodes.insert(number);
      bool possible = true;
      for_each_tensor(graph_, graph_.nodes[number], [&](size_t value) {
        const size_t other = places_.place_of(value);
        if (other == place || !possible) return;
        possible = available(other) ? !places_.written_after(other, number) : collect(other, nodes, made);
      });
      if (!possible) return false;
    }
    return true;
  }

  bool make_again(size_t place) {
    std::set<size_t> nodes, made;
    if (!collect(place, nodes, made)) return false;
    for (const size_t number : nodes) work_ += costs_.work[number];
    operators_ += std::ssize(nodes);
    if (out_ != nullptr) repeat(nodes, made);
    int64_t on_the_way = 0;
    for (const size_t each : made) {
      if (!stays(each)) on_the_way += places_.bytes(each);
    }
    // What was made on the way and is kept nowhere is made again where it is needed again.
    for (const size_t each : made) {
      if (places_.kept(each)) done_.insert(each);
      if (stays(each)) hold(each);
    }
    peak_ = std::max(peak_, held_bytes_ + on_the_way);
    return true;
  }

  // Whether what was made on the way is taken again.
  bool stays(size_t place) const { return places_.kept(place) && places_.used_from(at_, place); }

  void hold(size_t place) {
    if (places_.fixed(place) || !held_.insert(place).second) return;
    held_bytes_ += places_.bytes(place);
    peak_ = std::max(peak_, held_bytes_);
  }

  void repeat(const std::set<size_t>& nodes, const std::set<size_t>& made) {
    std::map<size_t, size_t> copies = copies_;
    for (const size_t number : nodes) {
      const Node& node = graph_.nodes[number];
      Node copy = with_copies(node, copies);
      for (const size_t argument : node.statistics) copy.arguments[argument] = {};
      copy.has_effect =
          std::ranges::any_of(node.writes, [&](size_t value) { return !Places::is_statistic(node, value); });
      copy.writes.clear();
      copy.statistics.clear();
      for (auto& result : copy.results) {
        if (!result) continue;
        const size_t value = *result;
        result = copies[value] = new_value(value);
        const size_t place = places_.place_of(value);
        if (made.contains(place) && places_.kept(place)) copies_[value] = *result;
      }
      out_->nodes.push_back(std::move(copy));
    }
  }

  size_t new_value(size_t of) {
    out_->memory.push_back(out_->values);
    out_->is_tensor.push_back(out_->is_tensor[of]);
    return out_->values++;
  }

  static Node with_copies(Node node, const std::map<size_t, size_t>& copies) {
    const auto change = [&](size_t& value) {
      if (const auto found = copies.find(value); found != copies.end()) value = found->second;
    };
    for (Argument& argument : node.arguments) {
      if (argument.takes_value()) change(argument.value);
      for (Element& element : argument.elements) {
        if (element.value) change(*element.value);
      }
    }
    return node;
  }

  const Graph& graph_;
  const GraphCosts& costs_;
  const Places& places_;
  const std::set<size_t>& again_;
  Graph* const out_;
  std::set<size_t> done_;            // places that were made again so far
  std::map<size_t, size_t> copies_;  // of their values
  size_t at_ = 0;                    // the operator of the backward half
  std::set<size_t> held_;            // places, while the backward half goes on
  int64_t held_bytes_ = 0, peak_ = 0;
  double work_ = 0;
  int64_t operators_ = 0;
};

}  // namespace

Recomputation recompute(const Graph& graph, const GraphCosts& costs, double most_work, double most_share) {
  constexpr int64_t kLeastShare = 4096;  // of all bytes, that are worth an operator
  const Places places(graph, costs);
  Recomputation result;
  result.bytes_before = places.kept_bytes({});
  struct Candidate {
    size_t place;
    double work_per_byte;
  };
  std::vector<Candidate> candidates;
  for (const auto& [place, bytes] : places.kept()) {
    if (bytes * kLeastShare < result.bytes_before) continue;
    const std::set<size_t> alone = {place};
    Rewriter counter(graph, costs, places, alone);
    if (counter.write() && std::isfinite(counter.work()))
      candidates.push_back({place, counter.work() / static_cast<double>(bytes)});
  }
  std::ranges::stable_sort(candidates, {}, &Candidate::work_per_byte);

  std::set<size_t> again;
  Rewriter as_it_is(graph, costs, places, again);
  check_invariant(as_it_is.write(), "without making anything again a graph is what it was");
  int64_t peak = as_it_is.peak();
  for (const Candidate& candidate : candidates) {
    again.insert(candidate.place);
    Rewriter counter(graph, costs, places, again);
    // A value that is made again long before it is used takes memory meanwhile, as it did when it was kept.
    if (counter.write() && counter.peak() < peak &&
        counter.work() - result.work <= most_work * static_cast<double>(peak - counter.peak()) &&
        counter.work() <= most_share * costs.whole_work) {
      result.work = counter.work();
      peak = counter.peak();
    } else {
      again.erase(candidate.place);
    }
  }
  Rewriter writer(graph, costs, places, again, &result.graph);
  check_invariant(writer.write(), "what could be counted can be written");
  result.kept_bytes = places.kept_bytes(again);
  result.operators = writer.operators();
  return result;
}

}  // namespace autotrain::graph
