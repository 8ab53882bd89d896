/** Finds a working C++ compiler. @returns its command and leading arguments. */
export function findCompiler(): Promise<[command: string, ...args: string[]]>
