#include "device/gpu_facts.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/text.h"

namespace autotrain {
namespace {

namespace fs = std::filesystem;

// CUDA's numbers.
constexpr int kNoDevice = 100;
constexpr int kDriverTooOld = 35;
constexpr int kDriverMismatch = 803;

std::optional<GpuFacts>& facts_of_a_test() {
  static std::optional<GpuFacts> facts;
  return facts;
}

std::string word_in(const fs::path& file) {
  WithoutLocale<std::ifstream> in(file);
  std::string word;
  in >> word;
  return word;
}

// 12080 is CUDA 12.8.
std::string version_in_words(int64_t version) {
  return cat("CUDA ", version / 1000, '.', version % 1000 / 10);
}

bool hides_all(const std::optional<std::string>& visible) {
  return visible && (visible->empty() || *visible == "-1" || *visible == "NoDevFiles");
}

}  // namespace

// Display and 3D controllers on the PCI bus, whether a driver has them or not.
bool kernel_shows_a_gpu() {
  std::error_code error;
  for (const fs::directory_entry& device : fs::directory_iterator("/sys/bus/pci/devices", error)) {
    if (word_in(device.path() / "vendor") != "0x10de") continue;
    if (word_in(device.path() / "class").starts_with("0x03")) return true;
  }
  return fs::exists("/proc/driver/nvidia/version", error);
}

GpuFacts gpu_facts() {
  if (facts_of_a_test()) return *facts_of_a_test();
  GpuFacts facts;
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) facts.visible = visible;
  ask_cuda(facts);
  facts.in_machine = facts.devices > 0 || kernel_shows_a_gpu();
  return facts;
}

GpuFactsScope::GpuFactsScope(GpuFacts facts) {
  facts_of_a_test() = std::move(facts);
}

GpuFactsScope::~GpuFactsScope() {
  facts_of_a_test().reset();
}

std::optional<GpuFault> gpu_fault(const GpuFacts& facts, int64_t index) {
  if (index >= 0 && index < facts.devices) return std::nullopt;
  if (facts.devices > 0) {
    return GpuFault{facts.devices == 1 ? "this process sees one GPU, which is cuda:0"
                                       : cat("this process sees ", facts.devices,
                                             " GPUs, cuda:0 to cuda:", facts.devices - 1),
                    facts.visible ? cat("CUDA_VISIBLE_DEVICES=", *facts.visible,
                                        " has those that it shows numbered from 0: use such a number")
                                  : "use one of these"};
  }
  if (!facts.in_build) return GpuFault{"this build has no CUDA", "build against a LibTorch with CUDA"};
  if (hides_all(facts.visible)) {
    return GpuFault{cat("CUDA_VISIBLE_DEVICES is ", quote(*facts.visible), ", which hides every GPU"),
                    "unset it, or set it to the number of a GPU", /*meant=*/true};
  }
  if (facts.driver == 0) {
    return GpuFault{"there is no NVIDIA driver",
                    "install one, until nvidia-smi shows the GPU; a container must be started with its GPUs "
                    "(docker run --gpus all)"};
  }
  if (facts.error == kDriverTooOld) {
    return GpuFault{
        cat("the NVIDIA driver is too old: it takes programs up to ", version_in_words(facts.driver),
            ", and this LibTorch is built with ", version_in_words(facts.runtime)),
        cat("install a newer driver, or a LibTorch for ", version_in_words(facts.driver))};
  }
  if (facts.error == kDriverMismatch) {
    return GpuFault{"the NVIDIA driver and its libraries are of different versions",
                    "restart the machine, or load the driver's module anew"};
  }
  if (facts.error == kNoDevice || facts.error == 0) {
    return GpuFault{cat("the NVIDIA driver shows no GPU",
                        facts.visible ? cat(" with CUDA_VISIBLE_DEVICES=", *facts.visible) : ""),
                    "nvidia-smi lists those there are; a container must be started with its GPUs (docker run "
                    "--gpus all)"};
  }
  return GpuFault{cat("CUDA cannot be used: ", facts.error_text), "see whether nvidia-smi works"};
}

}  // namespace autotrain
