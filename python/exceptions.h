#pragma once
// What Python raises, and what it is told of.
#include <nanobind/nanobind.h>

#include "lathe/core/error.h"

namespace lathe {

/// Asks Python for signals.  Ctrl-C becomes a stop; what another handler raises goes on its way.
inline bool stop_is_wanted() {
  const nanobind::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0) return false;
  if (!PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) throw nanobind::python_error();
  PyErr_Clear();
  return true;
}

/// Python's exception for an error.
inline PyObject* exception_for(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
    case ErrorCode::kInvalidData:
    case ErrorCode::kShape:
      return PyExc_ValueError;
    case ErrorCode::kNotFound:
      return PyExc_FileNotFoundError;
    case ErrorCode::kUnsupported:
      return PyExc_NotImplementedError;
    case ErrorCode::kIo:
      return PyExc_OSError;
    case ErrorCode::kMemory:
      return PyExc_MemoryError;
    case ErrorCode::kNonFinite:
      return PyExc_FloatingPointError;
    case ErrorCode::kInterrupted:
      return PyExc_KeyboardInterrupt;
    case ErrorCode::kInternal:
      break;
  }
  return PyExc_RuntimeError;
}

}  // namespace lathe
