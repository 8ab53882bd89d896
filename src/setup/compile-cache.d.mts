/** Has Node keep compiled code between starts, in the cache folder of set-up. */
export declare function keepCompiledCode(): void
