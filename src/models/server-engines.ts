/** Engines that run on servers of their own, with their display names. */
export const SERVER_ENGINES = { vllm: 'vLLM', sglang: 'SGLang' } as const

export type ServerEngine = keyof typeof SERVER_ENGINES

export const SERVER_ENGINE_TYPES = Object.keys(SERVER_ENGINES) as readonly ServerEngine[]

/** Whether an engine of a card runs on servers of its own. One without a type is local. */
export function runsOnServers<Engine extends { readonly type?: string | undefined }>(
  engine: Engine,
): engine is Extract<Engine, { readonly type: ServerEngine }> {
  return engine.type !== undefined && engine.type in SERVER_ENGINES
}
