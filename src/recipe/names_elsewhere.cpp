#include "recipe/names_elsewhere.h"

#include <algorithm>
#include <span>

#include "base/text.h"

namespace autotrain {
namespace {

// Letters and digits, which is what names have in common however they are written.
std::string bare(const std::string& name) {
  std::string letters = lower(name);
  std::erase_if(letters, [](char c) { return !is_letter(c) && !is_digit(c); });
  return letters;
}

struct NameElsewhere {
  const char* bare;
  const char* here;
};

// Names of PyTorch that are not spelt like ours.
constexpr NameElsewhere kNames[] = {
    {"bce", "binary_cross_entropy"},
    {"bceloss", "binary_cross_entropy"},
    {"bcewithlogits", "binary_cross_entropy"},
    {"bcewithlogitsloss", "binary_cross_entropy"},
    {"bfloat16", "bf16"},
    {"cosineannealinglr", "cosine"},
    {"float16", "fp16"},
    {"float32", "fp32"},
    {"half", "fp16"},
    {"learningrate", "lr"},
    {"mse", "mean_squared_error"},
    {"mseloss", "mean_squared_error"},
    {"reducelronplateau", "plateau"},
    {"smoothl1loss", "huber"},
};

constexpr const char* kBatch =
    "batch.effective, the samples of one update over all micro-batches and ranks; how many of them are "
    "computed at once is searched for (execution.micro_batch types it)";
constexpr const char* kAccumulation =
    "nothing to type: batch.effective is the samples of one update, and as many micro-batches as "
    "it takes are added up";
constexpr const char* kPrecision = "execution.precision: fp32, bf16, fp16 or auto";
constexpr const char* kRanks = "the option --ranks N of the command";
constexpr const char* kOutput = "the option --output FOLDER of the command";
constexpr const char* kClip = "optimizer.clip_norm";

// Keys and arguments of Lightning, Transformers, Accelerate, Keras, timm, fastai, DeepSpeed and Ultralytics.
constexpr NameElsewhere kKeys[] = {
    {"accelerator", "execution.device"},
    {"accumulategradbatches", kAccumulation},
    {"accumulationsteps", kAccumulation},
    {"amp", kPrecision},
    {"autocast", kPrecision},
    {"batchsize", kBatch},
    {"betas", "optimizer.beta1 and optimizer.beta2"},
    {"bf16", kPrecision},
    {"bs", kBatch},
    {"callbacks", "stop.patience, checkpoint and average, for what callbacks mostly do"},
    {"checkpointdir", kOutput},
    {"clipgrad", kClip},
    {"clipgradnorm", kClip},
    {"criterion", "loss.name"},
    {"datadir", "data.train.root or data.train.file"},
    {"dataloadernumworkers", "execution.loader.workers"},
    {"dataset", "data.train.dataset"},
    {"ddp", kRanks},
    {"devices", kRanks},
    {"dtype", kPrecision},
    {"earlystopping", "stop.patience, in evaluations without a better evaluation.monitor"},
    {"ema", "average.half_life"},
    {"eps", "optimizer.epsilon"},
    {"epoch", "stop.epochs"},
    {"evalbatchsize", "evaluation.micro_batch, which is searched for where it is not typed"},
    {"evaldataset", "data.validation"},
    {"evalsteps", "evaluation.every, such as 500 updates"},
    {"evalstrategy", "evaluation.every, such as 1 epoch"},
    {"evaluationstrategy", "evaluation.every, such as 1 epoch"},
    {"fp16", kPrecision},
    {"gpus", kRanks},
    {"gradaccum", kAccumulation},
    {"gradaccumsteps", kAccumulation},
    {"gradclip", kClip},
    {"gradientaccumulation", kAccumulation},
    {"gradientaccumulationsteps", kAccumulation},
    {"gradientcheckpointing", "execution.recompute"},
    {"gradientclipping", kClip},
    {"gradientclipval", kClip},
    {"imgsize", "data.train.resize or data.train.size"},
    {"imgsz", "data.train.resize or data.train.size"},
    {"initiallr", "optimizer.lr"},
    {"iterations", "stop.updates"},
    {"learningrate", "optimizer.lr"},
    {"lossfn", "loss.name"},
    {"lr0", "optimizer.lr"},
    {"lrscheduler", "schedule.name"},
    {"lrschedulertype", "schedule.name"},
    {"maxepochs", "stop.epochs"},
    {"maxgradnorm", kClip},
    {"maxsteps", "stop.updates"},
    {"maxtime", "stop.minutes"},
    {"metrics", "evaluation.metrics"},
    {"microbatchsize", "execution.micro_batch"},
    {"mixedprecision", kPrecision},
    {"nepochs", "stop.epochs"},
    {"ngpus", kRanks},
    {"numepochs", "stop.epochs"},
    {"numsteps", "stop.updates"},
    {"numtrainepochs", "stop.epochs"},
    {"numworkers", "execution.loader.workers"},
    {"optim", "optimizer.name"},
    {"out", kOutput},
    {"outdir", kOutput},
    {"outputdir", kOutput},
    {"perdevicebatchsize", kBatch},
    {"perdeviceevalbatchsize", "evaluation.micro_batch, which is searched for where it is not typed"},
    {"perdevicetrainbatchsize", kBatch},
    {"pretrained", "model.weights.file"},
    {"randomseed", "seed"},
    {"reportto", "report.tensorboard, report.csv and report.html"},
    {"resume", "the option --resume of the command"},
    {"resumefromcheckpoint", "the option --resume of the command"},
    {"savedir", kOutput},
    {"savesteps", "checkpoint.every, such as 500 updates"},
    {"savetotallimit", "checkpoint.keep"},
    {"scheduler", "schedule.name"},
    {"steps", "stop.updates"},
    {"test", "data.test"},
    {"trainbatchsize", kBatch},
    {"trainer", "stop, batch and execution, for what trainers are told"},
    {"training", "stop, batch and execution, for what trainers are told"},
    {"val", "data.validation"},
    {"valid", "data.validation"},
    {"warmup", "schedule.warmup"},
    {"warmupepochs", "schedule.warmup, such as 5 %"},
    {"warmupratio", "schedule.warmup, such as 5 %"},
    {"warmupsteps", "schedule.warmup, such as 500 updates"},
    {"wd", "optimizer.weight_decay"},
    {"workers", "execution.loader.workers"},
};

std::string here(std::span<const NameElsewhere> names, const std::string& bare) {
  const auto found = std::ranges::find(names, bare, &NameElsewhere::bare);
  return found == names.end() ? "" : found->here;
}

}  // namespace

std::string near_name(const std::string& word, const std::vector<std::string>& known) {
  const std::string given = bare(word), other = here(kNames, given);
  if (std::ranges::count(known, other) > 0) return other;
  for (const std::string& name : known) {
    const std::string own = bare(name);
    if (!own.empty() && (given == own || given == own + "loss" || given == own + "lr")) return name;
  }
  const std::string near = nearest(word, known);
  return near.empty() ? nearest(lower(word), known) : near;
}

std::string place_of_key_elsewhere(const std::string& key) {
  return here(kKeys, bare(key));
}

}  // namespace autotrain
