import { whyNoSeccomp } from './seccomp.ts'

/** Whether decoders are confined: if the system supports it, always (or the server does not start), or never. */
export type SandboxMode = 'auto' | 'require' | 'off'

/** What protects the server from its decoders. */
export interface Sandbox {
  readonly isOn: boolean
  /** One sentence for the log. */
  readonly description: string
}

/** @throws Error when the sandbox is required and the system has none. */
export function chooseSandbox(mode: SandboxMode): Sandbox {
  if (mode === 'off') return { isOn: false, description: 'Decoders are not confined: the sandbox is turned off' }
  const reason = whyNoSeccomp()
  if (reason === null) {
    return { isOn: true, description: 'Decoders are confined by seccomp: no files, no network, no programs' }
  }
  if (mode === 'require') throw new Error(`LOOKOUT_DECODER_SANDBOX: decoders cannot be confined here: ${reason}`)
  return { isOn: false, description: `Decoders are not confined: ${reason}` }
}
