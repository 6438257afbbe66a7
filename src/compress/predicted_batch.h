#pragma once

#include <map>
#include <string>

#include "autotrain/operator_counts.h"
#include "measure/subject.h"

namespace autotrain {

/// What the machine does at best, measured with nothing else going on.
struct CompressionRoof {
  std::map<std::string, double> flops_per_second = {};  ///< of products, by precision
  double bytes_per_second = 0;                          ///< at which weights are read
  std::string processor = {};
};

/// Takes some seconds. @param weight_bytes of the uncompressed model, which lie in a cache or in memory: the
/// rate of reading them counts for all.
CompressionRoof measure_roof(InferenceSubject& subject, int64_t weight_bytes);

/// The rate that a pass can reach in `precision`. Where some of its linear layers are computed in eight bits,
/// the rest is in fp32, and times add. 0: this machine's was not measured.
double reachable_flops(const CompressionRoof& roof, const std::string& precision, const ForwardCount& counts);

/// b* = the time to read the weights ÷ the time to compute a sample (docs/roofline.md). 0: not known.
double predicted_batch(const CompressionRoof& roof, int64_t weight_bytes, double flops_per_sample,
                       double flops_per_second);

}  // namespace autotrain
