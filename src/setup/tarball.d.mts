/** @throws SetupError that says how to install a program that is missing. */
export function needPrograms(...names: readonly string[]): Promise<void>
/** Downloads a package's tarball into a folder that holds no other, and returns its path. @throws SetupError */
export function fetchTarball(
  spec: { readonly name: string; readonly integrity: string; readonly contains: string },
  folder: string,
  projectRoot: string,
): Promise<string>
