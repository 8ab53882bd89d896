/** Where the server looks for the built page. */
export declare const STUDIO_DIRECTORY: string
/** Whether the built page is there and belongs to the present sources. */
export declare function isStudioBuilt(): Promise<boolean>
/**
 * Builds the page; the folder appears as a whole or not at all.
 * @throws Error with the bundler's output.
 */
export declare function buildStudio(): Promise<void>
