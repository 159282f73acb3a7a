// Fused ops: what they compute, how far off they may be and what they cost follows from their parts.
#include "lathe/ops/fused.h"

#include "lathe/core/error.h"
#include "lathe/ops/linear_cross_entropy.h"
#include "lathe/ops/ops.h"

namespace lathe::op {
namespace {

const Fusion& fusion_of(const OpDef& op) {
  for (const Fusion& fusion : fusions())
    if (fusion.op == &op) return fusion;
  fail(ErrorCode::kInternal, "{} is no fused op", op.name);
}
void by_parts(Reference& r) { run_parts(fusion_of(*r.node.op), r); }
Cost cost(const Node& node, const Program& program) {
  return cost_of_parts(fusion_of(*node.op), node, program);
}

const Bound kBound{.ulp = 1};  // run_parts

const Attrs kDropout = {{"p", 0.1}, {"site", int64_t{77}}};

/// Sample ids, positions and rng of n rows, which each have a counter of their own.
std::vector<std::vector<int32_t>> dropout_ints(int64_t n, bool positions = true) {
  std::vector<std::vector<int32_t>> ints(positions ? 2 : 1);
  for (int32_t i = 0; i < n; ++i) {
    ints[0].push_back(i / 3);
    if (positions) ints[1].push_back(i % 3);
  }
  ints.push_back({42, 7});
  return ints;
}

/// With eps: a one-element row has zero variance, and 1e-12 would only magnify rounding.
Attrs with_eps(Attrs attrs, int64_t n) {
  attrs["eps"] = n == 1 ? 1e-2 : 1e-12;
  return attrs;
}

std::vector<Case> dropout_add_layer_norm_cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, int64_t rows, int64_t n, bool positions, Attrs attrs, double scale) {
    cases.push_back({std::move(name),
                     {{rows, n}, {rows, n}, {rows}, {positions ? rows : -1}, {2}, {n}, {n}},
                     with_eps(std::move(attrs), n),
                     dropout_ints(rows, positions),
                     scale});
  };
  for (int64_t n : {1, 8, 31, 33, 384, 768, 1024}) add(std::to_string(n), 3, n, true, kDropout, 1);
  add("no positions", 5, 40, false, {{"p", 0.5}, {"site", int64_t{1}}}, 1);
  add("p = 0", 2, 40, true, {{"p", 0.0}, {"site", int64_t{1}}}, 1);
  add("magnitude 1e4", 4, 128, true, kDropout, 1e4);
  add("many rows", 300, 72, true, kDropout, 1);
  add("no beta", 3, 40, true, kDropout, 1);
  cases.back().in.back() = {-1};
  return cases;
}

std::vector<Case> add_layer_norm_cases() {
  std::vector<Case> cases;
  for (int64_t n : {1, 2, 31, 33, 384, 768, 1024})
    cases.push_back({std::to_string(n), {{3, n}, {3, n}, {n}, {n}}, with_eps({}, n)});
  cases.push_back({"rank 3", {{2, 3, 40}, {2, 3, 40}, {40}, {40}}});
  cases.push_back({"zero variance", {{4, 64}, {4, 64}, {64}, {64}}, {{"eps", 1e-5}}, {}, 0});
  cases.push_back({"many rows", {{300, 72}, {300, 72}, {72}, {72}}});
  cases.push_back({"no beta", {{3, 40}, {3, 40}, {40}, {-1}}});
  return cases;
}

std::vector<Case> layer_norm_dropout_bwd_cases() {
  std::vector<Case> cases;
  for (int64_t n : {1, 31, 33, 384, 768})
    cases.push_back(
        {std::to_string(n), {{5, n}, {5, n}, {n}, {5}, {5}, {5}, {5}, {2}}, kDropout, dropout_ints(5)});
  cases.push_back({"no positions",
                   {{4, 40}, {4, 40}, {40}, {4}, {4}, {4}, {-1}, {2}},
                   {{"p", 0.5}, {"site", int64_t{1}}},
                   dropout_ints(4, false)});
  cases.push_back({"many rows",
                   {{300, 72}, {300, 72}, {72}, {300}, {300}, {300}, {300}, {2}},
                   kDropout,
                   dropout_ints(300)});
  return cases;
}

std::vector<Case> layer_norm_bwd_add_cases() {
  std::vector<Case> cases;
  for (int64_t n : {1, 31, 33, 384, 768})
    cases.push_back({std::to_string(n), {{5, n}, {5, n}, {n}, {5}, {5}, {5, n}}});
  cases.push_back({"rank 3", {{2, 3, 40}, {2, 3, 40}, {40}, {2, 3}, {2, 3}, {2, 3, 40}}});
  cases.push_back({"many rows", {{300, 72}, {300, 72}, {72}, {300}, {300}, {300, 72}}});
  return cases;
}

std::vector<Case> add_rms_norm_cases() {
  std::vector<Case> cases;
  for (int64_t n : {1, 2, 31, 33, 384, 1024}) cases.push_back({std::to_string(n), {{3, n}, {3, n}, {n}}});
  cases.push_back({"plus one", {{3, 72}, {3, 72}, {72}}, {{"plus_one", true}}});
  cases.push_back({"rank 3", {{2, 3, 40}, {2, 3, 40}, {40}}});
  cases.push_back({"zeros", {{4, 64}, {4, 64}, {64}}, {{"eps", 1e-5}}, {}, 0});
  cases.push_back({"many rows", {{300, 72}, {300, 72}, {72}}});
  return cases;
}

std::vector<Case> rms_norm_bwd_add_cases() {
  std::vector<Case> cases;
  for (int64_t n : {1, 31, 33, 384, 1024})
    cases.push_back({std::to_string(n), {{5, n}, {5, n}, {n}, {5}, {5, n}}});
  cases.push_back({"plus one", {{5, 72}, {5, 72}, {72}, {5}, {5, 72}}, {{"plus_one", true}}});
  cases.push_back({"rank 3", {{2, 3, 40}, {2, 3, 40}, {40}, {2, 3}, {2, 3, 40}}});
  cases.push_back({"many rows", {{300, 72}, {300, 72}, {72}, {300}, {300, 72}}});
  return cases;
}

/// {rows, k, n} of a linear layer: edges of tiles and panels, a token count that is no multiple.
const std::vector<Shape> kSizes = {{1, 1, 1},    {1, 32, 2},  {7, 31, 33},   {16, 64, 64},
                                   {33, 65, 17}, {40, 96, 6}, {130, 128, 96}};

std::vector<Case> linear_bwd_input_add_cases() {
  std::vector<Case> cases;
  for (const Shape& s : kSizes) cases.push_back({to_string(s), {{s[0], s[2]}, {s[2], s[1]}, {s[0], s[1]}}});
  cases.push_back({"rank 3", {{2, 3, 24}, {24, 40}, {2, 3, 40}}});
  return cases;
}

std::vector<Case> linear_bwd_weight_cast_cases() {
  std::vector<Case> cases;
  for (const Shape& s : kSizes)
    cases.push_back({to_string(s), {{s[0], s[2]}, {s[0], s[1]}}, {{"to", "bf16"}}});
  return cases;
}

std::vector<Case> linear_gelu_cases() {
  std::vector<Case> cases;
  for (const Shape& s : kSizes) cases.push_back({to_string(s), {{s[0], s[1]}, {s[2], s[1]}, {s[2]}}});
  cases.push_back({"no bias", {{5, 40}, {24, 40}, {-1}}});
  cases.push_back({"rank 3", {{2, 3, 40}, {24, 40}, {24}}});
  cases.push_back({"large", {{9, 40}, {24, 40}, {24}}, {}, {}, 5});
  return cases;
}

std::vector<Case> embed_layer_norm_cases() {
  std::vector<Case> cases;
  for (int64_t n : {2, 33, 384, 768})
    cases.push_back({std::to_string(n),
                     {{9, n}, {4}, {2, n}, {4}, {5, n}, {4}, {n}, {n}},
                     {},
                     {{8, 0, 8, 3}, {0, 1, 1, 0}, {0, 1, 4, 0}}});
  Case many{"many rows", {{9, 96}, {300}, {2, 96}, {300}, {300, 96}, {300}, {96}, {96}}};
  many.ints.resize(3);
  for (int32_t i = 0; i < 300; ++i) {
    many.ints[0].push_back(i * 7 % 9);
    many.ints[1].push_back(i / 150);
    many.ints[2].push_back(i);
  }
  cases.push_back(many);
  return cases;
}

/// The same followed by dropout.
std::vector<Case> embed_layer_norm_dropout_cases() {
  std::vector<Case> cases = embed_layer_norm_cases();
  for (Case& c : cases) {
    const int64_t rows = c.in[1][0];
    c.in.insert(c.in.end(), {{rows}, {rows}, {2}});
    c.attrs = kDropout;
    for (auto& ints : dropout_ints(rows)) c.ints.push_back(std::move(ints));
  }
  return cases;
}

std::vector<Case> dropout_cast_cases() {
  std::vector<Case> cases;
  for (int64_t n : {1, 8, 31, 33, 768})
    cases.push_back({std::to_string(n), {{5, n}, {5}, {5}, {2}}, kDropout, dropout_ints(5)});
  cases.push_back({"no positions",
                   {{4, 40}, {4}, {-1}, {2}},
                   {{"p", 0.5}, {"site", int64_t{1}}},
                   dropout_ints(4, false)});
  cases.push_back({"many rows", {{300, 72}, {300}, {300}, {2}}, kDropout, dropout_ints(300)});
  return cases;
}

std::vector<Case> linear_cross_entropy_with_bwd_cases() {
  std::vector<Case> cases = linear_cross_entropy.cases();
  for (Case& c : cases) {
    c.in.push_back({1});
    if (c.attrs.count("smoothing")) c.attrs["smoothing_bwd"] = c.attrs.at("smoothing");
  }
  return cases;
}

/// Of a loss with its gradients: that of the parts, but for the logits, which are computed once.
Cost loss_cost(const Node& node, const Program& program) {
  const Shape &x = program.type(node.in[0]).shape, &w = program.type(node.in[1]).shape;
  Cost total = cost(node, program);
  total.flops -= 2 * static_cast<double>(x[0]) * static_cast<double>(x[1]) * static_cast<double>(w[0]);
  return total;
}

}  // namespace

/// sum = dropout(x) + r and its normalisation: how BERT ends attention and its feed-forward network.
const OpDef dropout_add_layer_norm{
    .name = "dropout_add_layer_norm",
    .signature =
        "x[n,c] r[n,c]:x sample_ids[n]:i32 positions[n]:i32? rng[2]:i32 gamma[c]:f32 beta[c]:f32? -> "
        "sum[n,c]:x y[n,c]:x mean[n]:f32 rstd[n]:f32",
    .attrs = {{"p", 0.1}, {"site", int64_t{0}}, {"eps", 1e-12}},
    .gradient = not_differentiable,
    .reference = by_parts,
    .cases = dropout_add_layer_norm_cases,
    .bound = kBound,
    .cost = cost,
    .fuses =
        "d = dropout(x, sample_ids, positions, rng); sum = add(d, r); "
        "y mean rstd = layer_norm(sum, gamma, beta)",
};

/// The same without dropout.
const OpDef add_layer_norm{
    .name = "add_layer_norm",
    .signature =
        "x[..,n] r[..,n]:x gamma[n]:f32 beta[n]:f32? -> sum[..,n]:x y[..,n]:x mean[..]:f32 rstd[..]:f32",
    .attrs = {{"eps", 1e-12}},
    .gradient = not_differentiable,
    .reference = by_parts,
    .cases = add_layer_norm_cases,
    .bound = kBound,
    .cost = cost,
    .fuses = "sum = add(x, r); y mean rstd = layer_norm(sum, gamma, beta)",
};

/// The backward pass of dropout_add_layer_norm: dx is the gradient of r, dd that of x.
const OpDef layer_norm_dropout_bwd{
    .name = "layer_norm_dropout_bwd",
    .signature =
        "dy[n,c] x[n,c]:dy gamma[c]:f32 mean[n]:f32 rstd[n]:f32 sample_ids[n]:i32 positions[n]:i32? "
        "rng[2]:i32 -> dx[n,c]:dy dgamma[c]:f32 dbeta[c]:f32 dd[n,c]:dy",
    .attrs = {{"p", 0.1}, {"site", int64_t{0}}},
    .gradient = not_differentiable,
    .reference = by_parts,
    .cases = layer_norm_dropout_bwd_cases,
    .bound = kBound,
    .cost = cost,
    .fuses =
        "dx dgamma dbeta = layer_norm_bwd(dy, x, gamma, mean, rstd); "
        "dd = dropout(dx, sample_ids, positions, rng)",
};

/// r: the gradient that comes past a layer whose input is normalised, as ModernBERT's are.
const OpDef layer_norm_bwd_add{
    .name = "layer_norm_bwd_add",
    .signature =
        "dy[..,n] x[..,n]:dy gamma[n]:f32 mean[..]:f32 rstd[..]:f32 r[..,n]:dy -> "
        "dx[..,n]:dy dgamma[n]:f32 dbeta[n]:f32",
    .gradient = not_differentiable,
    .reference = by_parts,
    .cases = layer_norm_bwd_add_cases,
    .bound = kBound,
    .cost = cost,
    .fuses = "t dgamma dbeta = layer_norm_bwd(dy, x, gamma, mean, rstd); dx = add(r, t)",
};

/// The sum that decoders go on with and its normalisation, which the next layer reads.
const OpDef add_rms_norm{
    .name = "add_rms_norm",
    .signature = "x[..,n] r[..,n]:x gamma[n]:f32 -> sum[..,n]:x y[..,n]:x rstd[..]:f32",
    .attrs = {{"eps", 1e-6}, {"plus_one", false}},
    .gradient = not_differentiable,
    .reference = by_parts,
    .cases = add_rms_norm_cases,
    .bound = kBound,
    .cost = cost,
    .fuses = "sum = add(x, r); y rstd = rms_norm(sum, gamma)",
};

/// r: the gradient that comes past the layer.
const OpDef rms_norm_bwd_add{
    .name = "rms_norm_bwd_add",
    .signature = "dy[..,n] x[..,n]:dy gamma[n]:f32 rstd[..]:f32 r[..,n]:dy -> dx[..,n]:dy dgamma[n]:f32",
    .attrs = {{"plus_one", false}},
    .gradient = not_differentiable,
    .reference = by_parts,
    .cases = rms_norm_bwd_add_cases,
    .bound = kBound,
    .cost = cost,
    .fuses = "t dgamma = rms_norm_bwd(dy, x, gamma, rstd); dx = add(r, t)",
};

/// r: the gradient that comes past the layer.
const OpDef linear_bwd_input_add{
    .name = "linear_bwd_input_add",
    .signature = "dy[..,n] w[n,k]:f32|dy r[..,k]:dy -> dx[..,k]:dy",
    .gradient = not_differentiable,
    .reference = by_parts,
    .cases = linear_bwd_input_add_cases,
    .bound = kBound,
    .cost = cost,
    .fuses = "t = linear_bwd_input(dy, w); dx = add(r, t)",
};

/// The same in fp8.
const OpDef linear_fp8_bwd_input_add{
    .name = "linear_fp8_bwd_input_add",
    .signature = "dy[..,n] w[n,k]:f32|dy r[..,k]:dy -> dx[..,k]:dy",
    .dtypes = {DType::bf16},
    .gradient = not_differentiable,
    .reference = by_parts,
    .cases =
        [] {
          return std::vector<Case>{{"[40, 96, 16]", {{40, 16}, {16, 96}, {40, 96}}},
                                   {"[7, 32, 48]", {{7, 48}, {48, 32}, {7, 32}}},
                                   {"rank 3", {{2, 3, 32}, {32, 48}, {2, 3, 48}}}};
        },
    .bound = kBound,
    .cost = cost,
    .fuses = "t = linear_fp8_bwd_input(dy, w); dx = add(r, t)",
};

/// The weight's gradient rounded to the dtype of the activations.
const OpDef linear_bwd_weight_cast{
    .name = "linear_bwd_weight_cast",
    .signature = "dy[..,n] x[..,k]:dy -> dw[n,k]:dy db[n]:f32",
    .dtypes = {DType::bf16},
    .attrs = {{"to", "bf16"}},
    .gradient = not_differentiable,
    .reference = by_parts,
    .cases = linear_bwd_weight_cast_cases,
    .bound = kBound,
    .cost = cost,
    .fuses = "t db = linear_bwd_weight(dy, x); dw = cast(t)",
};

/// x: before the activation, as the backward pass needs it.
const OpDef linear_gelu{
    .name = "linear_gelu",
    .signature = "a[..,k] w[n,k]:f32|a b[n]:f32? -> x[..,n]:a y[..,n]:a",
    .gradient = not_differentiable,
    .reference = by_parts,
    .cases = linear_gelu_cases,
    .bound = kBound,
    .cost = cost,
    .fuses = "x = linear(a, w, b); y = gelu(x)",
};

/// BERT's embeddings, of tables in one dtype.
const OpDef embed_layer_norm{
    .name = "embed_layer_norm",
    .signature =
        "word[v,c] ids[n]:i32 token_type[t,c]:word type_ids[n]:i32 position[m,c]:word position_ids[n]:i32 "
        "gamma[c]:f32 beta[c]:f32 -> sum[n,c]:f32 y[n,c]:f32 mean[n]:f32 rstd[n]:f32",
    .attrs = {{"eps", 1e-12},
              {"padding", int64_t{-1}},
              {"type_padding", int64_t{-1}},
              {"position_padding", int64_t{-1}}},
    .gradient = not_differentiable,
    .reference = by_parts,
    .cases = embed_layer_norm_cases,
    .bound = kBound,
    .cost = cost,
    .fuses =
        "w = look_up(word, ids); t = look_up(token_type, type_ids) padding:type_padding; "
        "a = add(w, t); p = look_up(position, position_ids) padding:position_padding; sum = add(a, p); "
        "y mean rstd = layer_norm(sum, gamma, beta)",
};

/// BERT's embeddings as the first layer takes them where it computes in bf16.
const OpDef embed_layer_norm_dropout{
    .name = "embed_layer_norm_dropout",
    .signature =
        "word[v,c] ids[n]:i32 token_type[t,c]:word type_ids[n]:i32 position[m,c]:word position_ids[n]:i32 "
        "gamma[c]:f32 beta[c]:f32 sample_ids[n]:i32 positions[n]:i32? rng[2]:i32 -> "
        "sum[n,c]:f32 mean[n]:f32 rstd[n]:f32 z[n,c]:bf16",
    .attrs = {{"eps", 1e-12},
              {"to", "bf16"},
              {"p", 0.1},
              {"site", int64_t{0}},
              {"padding", int64_t{-1}},
              {"type_padding", int64_t{-1}},
              {"position_padding", int64_t{-1}}},
    .gradient = not_differentiable,
    .reference = by_parts,
    .cases = embed_layer_norm_dropout_cases,
    .bound = kBound,
    .cost = cost,
    .fuses =
        "w = look_up(word, ids); t = look_up(token_type, type_ids) padding:type_padding; "
        "a = add(w, t); p = look_up(position, position_ids) padding:position_padding; sum = add(a, p); "
        "y mean rstd = layer_norm(sum, gamma, beta); "
        "r = cast(y); z = dropout(r, sample_ids, positions, rng)",
};

/// The gradient on its way back to the embeddings.
const OpDef dropout_cast{
    .name = "dropout_cast",
    .signature = "x[n,c] sample_ids[n]:i32 positions[n]:i32? rng[2]:i32 -> y[n,c]:f32",
    .dtypes = {DType::bf16},
    .attrs = {{"p", 0.1}, {"site", int64_t{0}}, {"to", "f32"}},
    .gradient = not_differentiable,
    .reference = by_parts,
    .cases = dropout_cast_cases,
    .bound = kBound,
    .cost = cost,
    .fuses = "d = dropout(x, sample_ids, positions, rng); y = cast(d)",
};

/// A loss and its gradients: the logits are computed once.
const OpDef linear_cross_entropy_with_bwd{
    .name = "linear_cross_entropy_with_bwd",
    .signature =
        "x[m,c] w[v,c]:f32|x b[v]:f32? labels[m]:i32 dloss[1]:f32 -> loss[1]:f32 correct[1]:i32 dx[m,c]:x "
        "dw[v,c]:f32 db[v]:f32",
    .attrs = {{"smoothing", 0.0}, {"smoothing_bwd", 0.0}},
    .check =
        [](std::span<const Type> in, const Attrs& attrs) {
          check_classes(in[1]);
          if (attrs.f("smoothing") != attrs.f("smoothing_bwd"))
            fail(ErrorCode::kShape, "linear_cross_entropy_with_bwd: smoothing is {}, backwards {}: take one",
                 attrs.f("smoothing"), attrs.f("smoothing_bwd"));
        },
    .gradient = not_differentiable,
    .reference = by_parts,
    .cases = linear_cross_entropy_with_bwd_cases,
    .bound = kBound,
    .cost = loss_cost,
    .fuses =
        "loss correct lse = linear_cross_entropy(x, w, b, labels); "
        "dx dw db = linear_cross_entropy_bwd(dloss, x, w, b, labels, lse) smoothing:smoothing_bwd",
};

}  // namespace lathe::op
