/** Puts the named folders of llama.cpp's source tree into `<workspace>/source` and returns that path. */
export function fetchSource(workspace: string, projectRoot: string, folders: readonly string[]): Promise<string>
