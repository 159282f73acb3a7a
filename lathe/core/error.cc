#include "lathe/core/error.h"

namespace lathe {

int exit_code(ErrorCode code) { return code == ErrorCode::kUsage ? 2 : 1; }

}  // namespace lathe
