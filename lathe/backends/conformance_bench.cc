#include "lathe/backends/conformance_bench.h"

#include "lathe/backends/ref/ref_backend.h"
#include "lathe/core/philox.h"

namespace lathe {
namespace {

std::vector<InputRule> rules_for(const OpDef& op, size_t count) {
  std::vector<InputRule> rules = input_rules(op);
  while (rules.size() < count) rules.push_back(rules.back());  // variadic
  return rules;
}

/// Draws, adjusts and rounds the inputs; then runs the reference.
void fill(TestBench& bench, const Case& c) {
  const Node& node = bench.node();
  Reference r{node, bench.in_types, {}, {}, {}, {}};
  size_t ints = 0;
  for (size_t i = 0; i < bench.in_types.size(); ++i) {
    const Type& type = bench.in_types[i];
    std::vector<double> x;
    if (type.dtype == DType::i32 && type.shape != Shape{-1}) {
      for (int32_t value : c.ints.at(ints)) x.push_back(value);
      ++ints;
    } else if (type.shape != Shape{-1}) {
      for (int64_t k = 0; k < elements(type); ++k)
        x.push_back(c.scale * unit_random(static_cast<uint32_t>(i), static_cast<uint32_t>(k)));
    }
    r.in.push_back(std::move(x));
  }
  if (c.adjust != nullptr) c.adjust(r);
  for (size_t i = 0; i < r.in.size(); ++i) {
    bench.inputs.emplace_back(r.in[i].size() * size_of(bench.in_types[i].dtype));
    store_doubles(bench.in_types[i].dtype, bench.inputs[i].data(), r.in[i]);
    r.in[i] = load_doubles(bench.in_types[i].dtype, bench.inputs[i].data(), r.in[i].size());
  }
  for (int id : node.out) {
    r.out_types.push_back(bench.program.type(id));
    r.out.emplace_back(static_cast<size_t>(elements(r.out_types.back())), 0.0);
    r.magnitude.emplace_back(r.out.back().size(), 0.0);
  }
  node.op->reference(r);
  bench.expected = std::make_unique<Reference>(std::move(r));
}

}  // namespace

double unit_random(uint32_t stream, uint32_t i) {
  return static_cast<double>(philox({i, stream, 0, 0}, 2024, 11)[0]) / 2147483648.0 - 1.0;
}

bool updates_in_place(const OpDef& op, size_t input) {
  for (const InPlace& alias : op.in_place)
    if (static_cast<size_t>(alias.in) == input) return true;
  return false;
}

bool has_inputs_alike(const OpDef& op) {
  for (const InputRule& rule : input_rules(op))
    if (!rule.or_that_of.empty()) return true;
  return false;
}

std::unique_ptr<TestBench> make_bench(const OpDef& op, const Case& c, DType dtype, bool alike) {
  auto bench = std::make_unique<TestBench>();
  bench->dtypes = name_of(dtype);
  const std::vector<InputRule> rules = rules_for(op, c.in.size());
  bench->program.set_longest_row(c.longest_row);
  std::vector<Value> values;
  for (size_t i = 0; i < c.in.size(); ++i) {
    const bool takes_dtype = !rules[i].fixed_dtype || (alike && !rules[i].or_that_of.empty());
    if (takes_dtype && rules[i].fixed_dtype) bench->dtypes += " " + rules[i].name;
    const Type type{takes_dtype ? dtype : rules[i].dtype, c.in[i]};
    bench->in_types.push_back(type);
    const std::string name = "in" + std::to_string(i);
    if (c.in[i] == Shape{-1})
      values.push_back({});
    else
      values.push_back(updates_in_place(op, i) ? bench->program.state(name, type)
                                               : bench->program.input(name, type));
  }
  const std::vector<Value> out = bench->program.emit(op, values, c.attrs);
  for (size_t o = 0; o < out.size(); ++o) bench->program.output("out" + std::to_string(o), out[o]);
  fill(*bench, c);
  return bench;
}

}  // namespace lathe
