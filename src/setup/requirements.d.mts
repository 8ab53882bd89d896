/** @throws SetupError on Windows. */
export function checkPlatform(): void
/** @throws SetupError when this Node is too old. */
export function checkNode(): void
