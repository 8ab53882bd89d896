import { execFileSync } from 'node:child_process'
import { delimiter } from 'node:path'

/** Frameworks want different versions of the same packages, so that there may be several Pythons. */
const PYTHONS = (process.env.LOOKOUT_TEST_FRAMEWORKS_PYTHON ?? 'python3').split(delimiter)

/** The first Python that has the module; null where none has. */
export function pythonWith(module: string): string | null {
  const code = `import importlib.util as u, sys; sys.exit(not u.find_spec('${module}'))`
  for (const python of PYTHONS) {
    try {
      execFileSync(python, ['-c', code], { stdio: 'ignore' })
      return python
    } catch {}
  }
  return null
}

export function skipped(what: string, module: string): string {
  return `SKIPPED: ${what} needs ${module} for Python (LOOKOUT_TEST_FRAMEWORKS_PYTHON=/path/to/python:/path/to/another)`
}
