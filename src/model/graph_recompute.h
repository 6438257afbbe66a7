#pragma once

#include "model/graph_nodes.h"
#include "model/graph_pass.h"

namespace autotrain::graph {

/// A graph whose backward half computes some of what the forward half would have kept for it once more.
struct Recomputation {
  Graph graph;
  int64_t kept_bytes = 0;  ///< that the forward half keeps for the backward half, beside what is given to it
  int64_t bytes_before = 0;  ///< the same of the graph that this one was made of
  double work = 0;           ///< of the operators that run once more
  int64_t operators = 0;     ///< how many these are
};

/// Has values of the forward half computed again just before the backward half first needs them, wherever
/// that takes little: those first that bring the most bytes for their work. Every operator gets what it got,
/// so each gradient has the same bits. Never computed again: random numbers, and what was made of what has
/// been written over since; of batch normalisation the output is, without its running statistics being kept
/// up twice. Products are the dearest, and have a share of a pass at most between them. Chen et al. 2016
/// (arXiv:1604.06174) keep the inputs of whole layers; here single values are chosen, by greed (Jain et al.
/// 2020, arXiv:1910.02653, find the best choice by a solver).
/// @param costs of a pass through the graph.
/// @param most_work that a byte less may take.
/// @param most_share that all of it may be of the work of a pass.
Recomputation recompute(const Graph& graph, const GraphCosts& costs, double most_work, double most_share);

}  // namespace autotrain::graph
