/**
 * Puts the named folders of llama.cpp's source tree into `<workspace>/source` and returns that path.
 * @param projectRoot where npm runs, so that the project's .npmrc (registry, proxy) applies.
 */
export function fetchSource(workspace: string, projectRoot: string, folders?: readonly string[]): Promise<string>
