/**
 * Lets Node run the compliance suite of Open Responses from a checkout, which is written for Bun: imports without an
 * extension, and a Zod that may not be installed there.
 */
import { registerHooks } from 'node:module'

registerHooks({
  resolve(specifier, context, next) {
    try {
      return next(specifier, context)
    } catch (error) {
      if (specifier.startsWith('.')) return next(`${specifier}.ts`, context)
      if (specifier === 'zod') return { url: import.meta.resolve('zod/v3'), shortCircuit: true }
      throw error
    }
  },
})
