#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

/// Cross entropy over the classes of a linear layer, whose logits [m,v] never exist whole.  Autograd appends
/// linear_cross_entropy_bwd; the pass `fuse` makes one node of both (fused.h), which needs two products for
/// the gradients instead of three.  All three go over chunks of rows.
extern const OpDef linear_cross_entropy, linear_cross_entropy_bwd;

/// Rows of a chunk, which follow only from the shapes.  Their logits in f32 take at most 256 MiB, and no more
/// than eight gradients of w; but 128 rows are always taken together if c allows it, since each chunk reads w
/// and adds to its gradient anew.
int64_t rows_of_a_chunk(int64_t m, int64_t v, int64_t c);

/// Errors: kShape for a weight of no classes, over which a softmax has no meaning.
void check_classes(const Type& w);

/// A node of one of the three, as backends see it.  Making one allocates nothing.
struct LinearCrossEntropy {
  LinearCrossEntropy(const Node& node, const Program& program);
  bool is_forward() const { return loss >= 0; }
  bool is_backward() const { return wants_dx || wants_dw || wants_db; }

  /// Numbers of its inputs, −1: none.  After x come w, b and labels.
  int x, dloss, lse_in;
  /// Numbers of its outputs.  After loss comes correct, after dx come dw and db.
  int loss, lse_out, dx;
  int64_t m, v, c, chunk;
  DType type, w_type;  ///< of x and w
  double smoothing;
  bool wants_dx, wants_dw, wants_db;  ///< something reads them
};

}  // namespace lathe::op
