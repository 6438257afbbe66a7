#include "step/update_scalars.h"

#include <ATen/record_function.h>

#include <cmath>
#include <cstring>
#include <set>

#include "support/support.h"

namespace autotrain {
namespace {

torch::Tensor number(double value) {
  return torch::full({}, value, torch::kFloat64);
}

struct UpdateCase {
  double scale = 1, factor = 1, loss_sum = 3, weight_sum = 7, norm = 11;
  std::optional<double> clip = std::nullopt;
  bool force_skip = false, penalty = false, preconditioned = false;
};

WindowFigures window_of(const UpdateCase& c) {
  return {.loss_sum = number(c.loss_sum),
          .weight_sum = number(c.weight_sum),
          .first_norms = torch::tensor({5.3, 2.1, 1.0}, torch::kFloat64),
          .first_preconditioned = number(0.77),
          .scaled_norm = number(c.norm),
          .own_norm = c.penalty ? number(0.123) : torch::Tensor(),
          .preconditioned = c.preconditioned ? number(0.456) : torch::Tensor()};
}

// One number after the other, as the definitions say.
UpdateScalars one_by_one(const UpdateCase& c, const WindowFigures& w, const torch::Tensor& loss_scale) {
  const torch::Tensor scale = loss_scale.to(torch::kFloat64);
  const torch::Tensor divisor = scale * c.factor * w.weight_sum;
  const torch::Tensor norm = w.scaled_norm / divisor;
  const torch::Tensor sound = at::isfinite(norm)
                                  .logical_and_(at::isfinite(w.loss_sum / w.weight_sum))
                                  .logical_and_(w.weight_sum != 0);
  torch::Tensor grad_scale = divisor;
  if (c.clip) grad_scale = divisor * ((norm + 1e-6) / *c.clip).clamp_min(1);
  const torch::Tensor found_inf = sound.logical_not().to(torch::kFloat32);
  const torch::Tensor skip = c.force_skip ? torch::ones_like(found_inf) : found_inf;
  const torch::Tensor squared = (scale * c.factor).square();
  std::vector<torch::Tensor> figures = {sound.to(torch::kFloat64),
                                        w.loss_sum / w.weight_sum,
                                        norm,
                                        scale,
                                        w.weight_sum,
                                        w.first_norms[0] / squared,
                                        w.first_norms[1],
                                        w.first_norms[2],
                                        c.penalty ? w.own_norm : norm};
  if (c.preconditioned) {
    figures.push_back(w.first_preconditioned / squared);
    figures.push_back(w.preconditioned);
  }
  return {at::stack(figures), grad_scale.to(torch::kFloat32), found_inf, skip, skip.logical_not()};
}

UpdateScalars in_vectors(const UpdateCase& c, const WindowFigures& w, const torch::Tensor& loss_scale) {
  return update_scalars(w, GradientScale(loss_scale, c.factor, w.weight_sum), c.clip, c.force_skip);
}

// The same bits, but for the sign of what is not a number.
void expect_same(const torch::Tensor& a, const torch::Tensor& b, const char* what) {
  ASSERT_EQ(a.scalar_type(), b.scalar_type()) << what;
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  const torch::Tensor x = a.to(torch::kFloat64).nan_to_num(1e300),
                      y = b.to(torch::kFloat64).nan_to_num(1e300);
  EXPECT_EQ(std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()), 0) << what << a << b;
}

void expect_same(const UpdateCase& c) {
  const WindowFigures window = window_of(c);
  const torch::Tensor loss_scale = torch::full({}, c.scale);
  const UpdateScalars wanted = one_by_one(c, window, loss_scale), got = in_vectors(c, window, loss_scale);
  expect_same(got.figures, wanted.figures, "figures");
  expect_same(got.grad_scale, wanted.grad_scale, "grad_scale");
  expect_same(got.found_inf, wanted.found_inf, "found_inf");
  expect_same(got.skipped, wanted.skipped, "skipped");
  expect_same(got.applies, wanted.applies, "applies");
}

TEST(UpdateScalars, HaveTheBitsOfTheirDefinitions) {
  for (const double scale : {1.0, 65536.0, 0.3})
    for (const double factor : {1.0, 0x1p-10, 0.7})
      for (const double weight : {7.0, 0.0, 1e-30, -2.0})
        for (const double norm : {0.0, 11.3, 1e30, static_cast<double>(INFINITY), std::nan("")})
          for (const std::optional<double> clip : {std::optional<double>(), std::optional<double>(1.7)})
            for (const bool force_skip : {false, true})
              expect_same({.scale = scale,
                           .factor = factor,
                           .weight_sum = weight,
                           .norm = norm,
                           .clip = clip,
                           .force_skip = force_skip});
  for (const double loss : {static_cast<double>(INFINITY), std::nan("")}) {
    expect_same({.loss_sum = loss});
    EXPECT_FALSE(in_vectors({}, window_of({.loss_sum = loss}), torch::ones({})).applies.item<bool>())
        << "the gradient may be finite all the same";
  }
  expect_same({.penalty = true, .preconditioned = true});
}

// A GPU launches a kernel for each of these; views and memory cost it none.
int64_t kernels_of(const std::function<void()>& work) {
  static thread_local int64_t count;
  count = 0;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& operation)
                                     -> std::unique_ptr<at::ObserverContext> {
        static const std::set<std::string> free = {
            "aten::select",        "aten::slice",      "aten::narrow",   "aten::unbind",
            "aten::as_strided",    "aten::unsqueeze",  "aten::empty",    "aten::empty_like",
            "aten::empty_strided", "aten::detach",     "aten::expand",   "aten::view",
            "aten::resize_",       "aten::to",         "aten::_to_copy", "aten::resolve_conj",
            "aten::resolve_neg",   "aten::result_type"};
        if (!free.contains(operation.name())) ++count;
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  work();
  at::removeCallback(handle);
  return count;
}

TEST(UpdateScalars, TakeFewerKernelsThanOneByOne) {
  const UpdateCase c{.clip = 1.0};
  const WindowFigures window = window_of(c);
  const torch::Tensor loss_scale = torch::ones({});
  const int64_t before = kernels_of([&] { one_by_one(c, window, loss_scale); });
  const int64_t now = kernels_of([&] { in_vectors(c, window, loss_scale); });
  RecordProperty("kernels_one_by_one", static_cast<int>(before));
  RecordProperty("kernels_in_vectors", static_cast<int>(now));
  EXPECT_GT(before, now + 8);
}

}  // namespace
}  // namespace autotrain
