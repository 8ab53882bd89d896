/** Command and leading arguments of a C++ compiler that starts. */
export function findCompiler(): Promise<[command: string, ...args: string[]]>
