#include "compress/predicted_batch.h"

#include "measure/bandwidth.h"
#include "measure/machine.h"

namespace autotrain {

CompressionRoof measure_roof(InferenceSubject& subject, int64_t weight_bytes) {
  Device& device = subject.device();
  device.memory().remove_limit();  // the machine is measured, not the part of it that a run may use
  CompressionRoof roof{.bytes_per_second = read_bytes_per_second(device, weight_bytes)};
  const MachineFigures machine = measure_machine(device);
  for (const MachineFigures::Rate& rate : machine.rates) roof.flops_per_second[rate.precision] = rate.flops;
  roof.processor = machine.name;
  return roof;
}

double reachable_flops(const CompressionRoof& roof, const std::string& precision,
                       const ForwardCount& counts) {
  const auto rate = [&](const std::string& name) {
    const auto found = roof.flops_per_second.find(name);
    return found == roof.flops_per_second.end() ? 0.0 : found->second;
  };
  double rounded = 0;
  for (const OperatorCount& each : counts.operators) {
    if (each.name == "quantized::linear_dynamic") rounded += each.flops;
  }
  if (rounded == 0) return rate(precision);
  if (rate("int8") == 0 || rate("fp32") == 0) return 0;
  return counts.flops() / (rounded / rate("int8") + (counts.flops() - rounded) / rate("fp32"));
}

double predicted_batch(const CompressionRoof& roof, int64_t weight_bytes, double flops_per_sample,
                       double flops_per_second) {
  if (roof.bytes_per_second == 0 || flops_per_sample == 0) return 0;
  return static_cast<double>(weight_bytes) / roof.bytes_per_second * flops_per_second / flops_per_sample;
}

}  // namespace autotrain
