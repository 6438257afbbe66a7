// Ranks over process groups that the caller made: threads of this process, which meet at a HashStore and
// exchange tensors by gloo.
#include "autotrain/rank_group.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/text.h"
#include "comm/exact_sum.h"
#include "comm/ranks.h"
#include "support/lanes.h"
#include "support/support.h"

namespace autotrain {
namespace {

using Store = c10::intrusive_ptr<c10d::Store>;
using Gloo = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

constexpr int64_t kNumbers = 1001;

// LibTorch's recorder of collective calls enters a group at its first call without a lock, so ranks that are
// threads of one process crash about once in a hundred runs. It is switched off before the first group.
const int kWithoutRecorder = ::setenv("TORCH_FR_BUFFER_SIZE", "0", 1);

Environment launched_as(int64_t rank, int64_t world) {
  return [=](const std::string& name) -> std::optional<std::string> {
    if (name == "RANK") return std::to_string(rank);
    if (name == "WORLD_SIZE") return std::to_string(world);
    return std::nullopt;
  };
}

std::optional<std::string> unset(const std::string&) {
  return std::nullopt;
}

Gloo make_gloo(const Store& store, int64_t rank, int64_t world) {
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::PrefixStore>("theirs", store),
                                                     static_cast<int>(rank), static_cast<int>(world),
                                                     options);
}

// Runs `work(group, store)` as each of `world` ranks. All groups live until all ranks are done: one that went
// earlier would close connections that another rank may still be making.
template <class Work>
void as_group(int64_t world, Work work) {
  const Store store = c10::make_intrusive<c10d::HashStore>();
  std::vector<Gloo> groups(static_cast<size_t>(world));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      Gloo& mine = groups[static_cast<size_t>(rank)];
      mine = make_gloo(store, rank, world);
      work(mine, store);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

torch::Tensor exact_sum_of(Ranks& ranks) {
  const torch::Tensor flat = test::lane_numbers(kNumbers, ranks.place().rank);
  ExactSum sum(ranks.exchange(), ranks.place(), flat.numel(), flat.options());
  sum(flat);
  return flat;
}

// What threads come to that pass tensors to each other directly.
std::vector<torch::Tensor> sums_by_threads(int64_t world) {
  const Store store = c10::make_intrusive<c10d::HashStore>();
  auto exchanges = make_thread_exchanges(world);
  std::vector<torch::Tensor> sums(static_cast<size_t>(world));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      Ranks ranks(store, {rank, world, "here"}, std::move(exchanges[static_cast<size_t>(rank)]));
      sums[static_cast<size_t>(rank)] = exact_sum_of(ranks);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return sums;
}

// One run after the other, by the backend and by a group that has it; then the caller's own call.
TEST(RankGroup, SumsToTheSameBitsAndIsTheCallersAgainAfterwards) {
  for (const int64_t world : {2, 4}) {
    const torch::Tensor wanted = sums_by_threads(world)[0];
    std::vector<int> right(static_cast<size_t>(world));
    as_group(world, [&](const Gloo& gloo, const Store& store) {
      const int64_t rank = gloo->getRank();
      auto whole =
          c10::make_intrusive<c10d::ProcessGroup>(store, static_cast<int>(rank), static_cast<int>(world));
      whole->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
      bool good = true;
      for (const auto& group :
           {std::make_shared<const RankGroup>(gloo, store), std::make_shared<const RankGroup>(whole)}) {
        const auto ranks = Ranks::over(group, launched_as(rank, world));
        ranks->connect(torch::Device(torch::kCPU));
        const Place& place = ranks->place();
        good = good && place.rank == rank && place.local_rank == rank && place.local_world == world &&
               exact_sum_of(*ranks).equal(wanted);
      }
      std::vector<torch::Tensor> own = {torch::ones({1})};
      gloo->allreduce(own)->wait();
      right[static_cast<size_t>(rank)] = good && own[0].item<int64_t>() == world;
    });
    EXPECT_EQ(right, std::vector<int>(static_cast<size_t>(world), 1));
  }
}

TEST(RankGroup, OfOneRankIsASingleRank) {
  as_group(1, [](const Gloo& gloo, const Store& store) {
    const auto ranks = Ranks::over(std::make_shared<const RankGroup>(gloo, store), unset);
    EXPECT_FALSE(ranks->several());
  });
}

TEST(RankGroup, WhatCannotBeOneIsRefused) {
  const Store store = c10::make_intrusive<c10d::HashStore>();
  const auto refused = [](const std::function<void()>& make) {
    return std::string(test::expect_error(ExitCode::kUsage, make).what());
  };
  const c10::intrusive_ptr<c10d::ProcessGroup> destroyed;
  EXPECT_TRUE(test::holds(refused([&] { RankGroup group(destroyed); }), "the process group is null"));
  EXPECT_TRUE(test::holds(refused([&] { RankGroup group(Gloo(), store); }), "the process group is null"));
  const Gloo gloo = make_gloo(store, 0, 1);
  EXPECT_TRUE(test::holds(refused([&] { RankGroup group(gloo, nullptr); }), "there is no store"));
  const test::TemporaryFolder folder;
  const auto file = c10::make_intrusive<c10d::FileStore>((folder / "store").string(), 1);
  EXPECT_TRUE(test::holds(refused([&] { RankGroup group(gloo, file); }), "cannot append"));
  const RankGroup empty(c10::make_intrusive<c10d::ProcessGroup>(store, 0, 1));
  EXPECT_TRUE(test::holds(refused([&] { empty.backend_for(torch::Device(torch::kCPU)); }),
                          "exchanges no tensors of cpu"));
}

TEST(RankGroup, OfAnotherSizeThanTheLauncherSaysIsRefused) {
  std::vector<std::string> said(2);
  as_group(2, [&](const Gloo& gloo, const Store& store) {
    const int64_t rank = gloo->getRank();
    const auto group = std::make_shared<const RankGroup>(gloo, store);
    const Environment environment = rank == 0 ? launched_as(0, 4) : launched_as(0, 2);
    said[static_cast<size_t>(rank)] =
        test::expect_error(ExitCode::kUsage, [&] { Ranks::over(group, environment); }).what();
  });
  EXPECT_TRUE(test::holds(said[0], "WORLD_SIZE: is \"4\"")) << said[0];
  EXPECT_TRUE(test::holds(said[0], "rank 0 of 2"));
  EXPECT_TRUE(test::holds(said[1], "RANK: is \"0\"")) << said[1];
  EXPECT_TRUE(test::holds(said[1], "rank 1 of 2"));
}

TEST(RankGroup, ServesOneRunAtATime) {
  std::vector<std::string> said(2);
  as_group(2, [&](const Gloo& gloo, const Store& store) {
    const auto first = Ranks::over(std::make_shared<const RankGroup>(gloo, store), unset);
    const auto again = std::make_shared<const RankGroup>(gloo, store);
    said[static_cast<size_t>(gloo->getRank())] =
        test::expect_error(ExitCode::kUsage, [&] { Ranks::over(again, unset); }).what();
    first->meet("still here");
  });
  for (const std::string& each : said)
    EXPECT_TRUE(test::holds(each, "another trainer of this process uses the process group now"));
}

// An exchange that fails ends the run by a named error; nobody shuts the group down.
TEST(RankGroup, IsNeitherShutDownNorAbortedWhenTheRunFails) {
  std::vector<int> right(2);
  as_group(2, [&](const Gloo& gloo, const Store& store) {
    const int64_t rank = gloo->getRank();
    {
      const auto ranks = Ranks::over(std::make_shared<const RankGroup>(gloo, store), unset);
      ranks->connect(torch::Device(torch::kCPU));
      if (rank == 1) {
        ranks->share_end(Error(ExitCode::kBadData, "train.csv", "is torn", ""));
      } else {
        const Error error = test::expect_error(ExitCode::kBadData, [&] { ranks->meet({}); });
        right[0] = static_cast<bool>(test::holds(error.what(), "train.csv"));
      }
    }
    std::vector<torch::Tensor> own = {torch::ones({1})};
    gloo->allreduce(own)->wait();
    right[static_cast<size_t>(rank)] = (rank == 1 || right[0] == 1) && own[0].item<int64_t>() == 2;
  });
  EXPECT_EQ(right, (std::vector{1, 1}));
}

}  // namespace
}  // namespace autotrain
