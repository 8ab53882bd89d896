// What the compiler is told about vectors in registers.
#pragma once

namespace {

/** Has the compiler keep a vector in a register that is used several times. It would read it from memory each time. */
template <typename Vector> inline Vector kept_in_register(Vector x) {
    asm("" : "+v"(x));
    return x;
}

}  // namespace
