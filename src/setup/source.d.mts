/**
 * Puts the named folders of llama.cpp's source tree into `<workspace>/source` and returns that path.
 * @param projectRoot npm runs there, so that the project's own .npmrc counts.
 */
export function fetchSource(workspace: string, projectRoot: string, folders?: readonly string[]): Promise<string>
