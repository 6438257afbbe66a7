// Scripts as the rest of the program sees them.
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include "model/models.h"
#include "support/support.h"

namespace autotrain {
namespace {

namespace jit = torch::jit;
using test::TemporaryFolder;

// A module with a weight [3, 6] of ones, and what `add` gives it.
std::shared_ptr<Network> scripted(const std::string& forward,
                                  const std::function<void(jit::Module&)>& add = {},
                                  std::map<std::string, Value> keys = {}, SampleShape shape = {{6}, 3, 0}) {
  const TemporaryFolder folder;
  jit::Module module("scripted");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_parameter("weight", torch::ones({3, 6}).requires_grad_(), /*is_buffer=*/false);
  if (add) add(module);
  module.define(forward);
  const std::string file = folder / "m.pt";
  module.save(file);
  keys["file"] = file;
  return make_model({"torchscript", keys}, shape);
}

void expect_refused(const std::string& words, const std::string& forward,
                    const std::function<void(jit::Module&)>& add = {},
                    std::map<std::string, Value> keys = {}) {
  const Error error =
      test::expect_error(ExitCode::kBadRecipe, [&] { scripted(forward, add, std::move(keys)); });
  EXPECT_TRUE(test::holds(error.what(), words));
}

void with_mean(jit::Module& module) {
  module.register_buffer("mean", torch::zeros({6}));
}

// ------------------------------------------------------------------ what a pass leaves

constexpr const char* kAssigns = R"(
def forward(self, x):
    y = torch.linear(x - self.mean, self.weight)
    if self.training:
        self.mean = 0.5 * self.mean + 0.5 * x.mean(0)
    return y * self.mean.sum()
)";

TEST(TorchScript, ABufferThatIsAssignedIsStateAndCanBePutBack) {
  const auto model = scripted(kAssigns, with_mean);
  const torch::Tensor held = model->named_buffers()["mean"], x = torch::full({4, 6}, 2.0);
  model->train();
  model->forward(x).sum().backward();
  EXPECT_TRUE(held.equal(torch::full({6}, 1.0)));
  model->forward(x).sum().backward();
  EXPECT_TRUE(held.equal(torch::full({6}, 1.5)));
  EXPECT_FALSE(held.requires_grad());
  model->eval();
  const int64_t version = held._version();
  const torch::Tensor before = model->forward(x);
  EXPECT_EQ(held._version(), version) << "an evaluation leaves it";
  {
    const torch::NoGradGuard no_gradients;
    held.zero_();  // as a checkpoint that is read does
  }
  EXPECT_FALSE(model->forward(x).equal(before));
}

TEST(TorchScript, ABufferThatIsAssignedConstantsIsState) {
  const auto model =
      scripted(R"(
def forward(self, x):
    if self.training:
        self.begun = torch.ones(1)
    return torch.linear(x, self.weight) * self.begun
)",
               [](jit::Module& module) { module.register_buffer("begun", torch::zeros({1})); });
  model->train();
  model->forward(torch::ones({2, 6}));
  EXPECT_EQ(model->named_buffers()["begun"].item<float>(), 1);
}

TEST(TorchScript, APassThatFailsLeavesItsBuffers) {
  const auto model = scripted(R"(
def forward(self, x):
    self.mean = self.mean + 1.0
    return torch.linear(x, self.weight) + self.mean[:3]
)",
                              with_mean);
  const torch::Tensor held = model->named_buffers()["mean"];
  EXPECT_THROW(model->forward(torch::ones({2, 5})), Error);
  EXPECT_TRUE(held.equal(torch::zeros({6})));
  model->forward(torch::ones({2, 6}));
  EXPECT_TRUE(held.equal(torch::ones({6})));
}

TEST(TorchScript, ABufferKeepsItsShape) {
  const auto model = scripted(R"(
def forward(self, x):
    y = torch.linear(x, self.weight) + self.mean.sum()
    self.mean = x.mean(1)
    return y
)",
                              with_mean);
  const Error error = test::expect_error(ExitCode::kBadRecipe, [&] { model->forward(torch::ones({2, 6})); });
  EXPECT_TRUE(test::holds(error.what(), "in the place of its buffer \"mean\""));
}

void with_number(jit::Module& module) {
  module.register_attribute("t", c10::IntType::get(), int64_t{0});
}

void with_tensor(jit::Module& module) {
  module.register_attribute("h", c10::TensorType::get(), torch::zeros({6}));
}

TEST(TorchScript, StateThatNoCheckpointHoldsIsRefused) {
  expect_refused("keeps \"t\", which is no buffer", R"(
def forward(self, x):
    if self.training:
        self.t = self.t + 1
    return torch.linear(x, self.weight) / (1.0 + float(self.t))
)",
                 with_number);
  expect_refused("keeps \"h\", which is no buffer", R"(
def forward(self, x):
    if self.training:
        self.h.mul_(0.5).add_(x.detach().mean(0))
    return torch.linear(x - self.h, self.weight)
)",
                 with_tensor);
  expect_refused("keeps \"t\", which is no buffer", R"(
def forward(self, x):
    if self.t == 0:
        self.mean = x.detach().mean(0)
        self.t = 1
    return torch.linear(x - self.mean, self.weight)
)",
                 [](jit::Module& module) { with_number(module), with_mean(module); });
  expect_refused("keeps \"t\", which is no buffer", R"(
def forward(self, x):
    if self.training:
        self.t = 1
    return torch.linear(x, self.weight) * float(self.t)
)",
                 with_number);
}

TEST(TorchScript, TablesNotesAndCountersThatNothingDependsOnAreNoState) {
  const auto with_table = [](jit::Module& module) {
    module.register_attribute("table", c10::OptionalType::create(c10::TensorType::get()), c10::IValue());
    module.register_attribute("length", c10::IntType::get(), int64_t{0});
    module.register_buffer("rate", torch::ones({1}));
    with_number(module), with_tensor(module);
  };
  const auto model = scripted(R"(
def forward(self, x):
    length = x.size(1)
    table = self.table
    if table is None or self.length < length:
        table = torch.arange(length, device=x.device) * self.rate
        self.table = table
        self.length = length
    self.t = self.t + 1
    y = torch.linear(x + table[:length], self.weight)
    self.h = y.detach()
    return y + self.h.mean()
)",
                              with_table);
  for (int pass = 0; pass < 2; ++pass)
    EXPECT_EQ(model->forward(torch::zeros({2, 6}))[0][0].item<float>(), 30);
}

// ------------------------------------------------------------------ what it is called with

constexpr const char* kMeanSquares = R"(
def forward(self, x, y):
    return ((torch.linear(x, self.weight).sum(1) - y) ** 2).mean()
)";
const std::map<std::string, Value> kLossInside = {{"loss", "all"}};

// The note that a table is made goes on with the module, so the table does, too.
TEST(TorchScript, ATableStaysAsLongAsTheNoteThatItIsMade) {
  for (const char* const forward : {R"(
def forward(self, x):
    if x.size(1) > self.most:
        self.most = x.size(1)
        self.table = torch.full([x.size(1)], 2.0)
    return torch.linear(x * self.table[:x.size(1)], self.weight)
)",
                                    R"(
def forward(self, x):
    if self.most == 1:
        self.table = torch.full([6], 2.0)
        self.most = 2
    return torch.linear(x * self.table, self.weight)
)"}) {
    for (const int64_t length : {1, 6}) {
      const auto model = scripted(forward, [&](jit::Module& module) {
        module.register_buffer("table", torch::zeros({length}));
        module.register_attribute("most", c10::IntType::get(), 1);
      });
      const auto buffers = model->named_buffers();
      const torch::Tensor x = torch::ones({2, 6}), before = buffers["table"].clone();
      for (int pass = 0; pass < 3; ++pass) {
        EXPECT_TRUE(model->forward(x).eq(12).all().item<bool>()) << forward;
        const torch::NoGradGuard no_gradients;
        buffers["table"].copy_(before);  // as after a trial
      }
    }
  }
}

TEST(TorchScript, ABufferThatIsAssignedLeavesOthersThatHadItsMemory) {
  const auto model = scripted(R"(
def forward(self, x):
    if self.training:
        self.a = self.a + 1.0
    return torch.linear(x, self.weight) + self.b.sum() + 0.0 * self.a.sum()
)",
                              [](jit::Module& module) {
                                const torch::Tensor both = torch::zeros({6});
                                module.register_buffer("a", both);
                                module.register_buffer("b", both);
                              });
  model->train();
  for (int pass = 0; pass < 3; ++pass)
    EXPECT_TRUE(model->forward(torch::ones({2, 6})).eq(6).all().item<bool>());
}

TEST(TorchScript, WhatIsOnlyToldOrBegunAfreshIsNoState) {
  const auto with_notes = [](jit::Module& module) {
    module.register_attribute("calls", c10::IntType::get(), 0);
    module.register_attribute("seen", c10::ListType::ofTensors(), c10::List<torch::Tensor>());
  };
  const auto model = scripted(R"(
def forward(self, x):
    self.calls = self.calls + 1
    assert self.calls > 0
    if self.calls % 100 == 0:
        print("a hundred")
    self.seen.clear()
    self.seen.append(x)
    return torch.linear(self.seen[0], self.weight)
)",
                              with_notes);
  for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(model->forward(torch::ones({2, 6})).size(1), 3);
  expect_refused("keeps \"seen\"", R"(
def forward(self, x):
    self.seen.append(x)
    return torch.linear(x, self.weight) * float(len(self.seen))
)",
                 with_notes);
}

TEST(TorchScript, NumbersAreGivenAsTheirFileHasThem) {
  const Batch batch{torch::zeros({4, 6}), torch::arange(4.0).unsqueeze(1), 4};
  SampleShape flat{{6}, 1, 0};
  flat.target_is_number = true;
  const auto given_flat = scripted(kMeanSquares, {}, kLossInside, flat);
  EXPECT_FLOAT_EQ(given_flat->own_loss(batch).terms.sum.item<float>(), 14);
  const auto given_rows = scripted(R"(
def forward(self, x, y):
    assert y.dim() == 2
    return ((torch.linear(x, self.weight).sum(1, keepdim=True) - y) ** 2).mean()
)",
                                   {}, kLossInside, {{6}, 1, 0});
  EXPECT_FLOAT_EQ(given_rows->own_loss(batch).terms.sum.item<float>(), 14);
  SampleShape number{{1}, 3, 0};
  number.input_is_number = true;
  const auto of_numbers = scripted(R"(
def forward(self, x):
    assert x.dim() == 1
    return x.unsqueeze(1) * self.weight.sum(1)
)",
                                   {}, {}, number);
  EXPECT_EQ(of_numbers->forward(torch::ones({4, 1})).sizes(), (std::vector<int64_t>{4, 3}));
}

TEST(TorchScript, TargetsAreTheArgumentThatIsCalledSo) {
  const auto model = scripted(R"(
def forward(self, x, mask: Optional[Tensor] = None, labels: Optional[Tensor] = None):
    y = torch.linear(x, self.weight)
    if mask is not None:
        y = y * 100.0
    loss = y.sum()
    if labels is not None:
        loss = loss + labels.sum().float()
    return loss
)",
                              {}, {{"loss", "all"}, {"reduction", "sum"}});
  EXPECT_EQ(model->own_loss({torch::zeros({2, 6}), torch::tensor({3, 4}), 2}).terms.sum.item<float>(), 7);
  expect_refused("may be given a, b beside its inputs", R"(
def forward(self, x, a: Optional[Tensor] = None, b: Optional[Tensor] = None):
    return torch.linear(x, self.weight).sum()
)",
                 {}, kLossInside);
  expect_refused("takes \"images\" as List[Tensor]", R"(
def forward(self, images: List[Tensor]):
    return torch.linear(torch.stack(images), self.weight)
)");
}

// ------------------------------------------------------------------ what cannot train

TEST(TorchScript, WhatWasMadeForInferenceIsRefused) {
  const auto model = scripted(R"(
def forward(self, x):
    return torch.linear(x, self.weight).detach()
)");
  model->train();
  const Error error = test::expect_error(ExitCode::kBadRecipe, [&] { model->forward(torch::ones({2, 6})); });
  EXPECT_TRUE(test::holds(error.what(), "its prediction has no gradient"));
  model->eval();
  EXPECT_EQ(model->forward(torch::ones({2, 6})).size(0), 2);
}

TEST(TorchScript, DropoutOfAttentionThatIsAConstantIsRefused) {
  const std::string attends = R"(
def forward(self, x):
    y = torch.linear(x, self.weight).unsqueeze(1)
    return torch.scaled_dot_product_attention(y, y, y, None, )";
  const std::string end = ", False).squeeze(1)\n";
  expect_refused("is fixed to one mode in aten::scaled_dot_product_attention", attends + "0.5" + end);
  EXPECT_NE(scripted(attends + "0.0" + end), nullptr);
}

TEST(TorchScript, BuffersThatWereExpandedAreWrittenTo) {
  const auto model =
      scripted(R"(
def forward(self, x):
    self.mean.add_(x.mean(0))
    return torch.linear(x - self.mean, self.weight)
)",
               [](jit::Module& module) { module.register_buffer("mean", torch::zeros({1}).expand({6})); });
  model->forward(torch::ones({2, 6}));
  EXPECT_TRUE(model->named_buffers()["mean"].equal(torch::ones({6})));
}

}  // namespace
}  // namespace autotrain
