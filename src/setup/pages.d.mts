/** A page for browsers that the server serves. */
export interface Page {
  /** The folder of its source. */
  readonly source: string
  /** Where the server looks for the built page. */
  readonly directory: string
}
/** The page at /studio. */
export declare const STUDIO: Page
/** The page at /docs. */
export declare const REFERENCE: Page
export declare const PAGES: readonly Page[]
/** Whether the built page is there and belongs to the present sources. */
export declare function isPageBuilt(page: Page): Promise<boolean>
/**
 * Builds the page; the folder appears as a whole or not at all.
 * @throws Error with the bundler's output.
 */
export declare function buildPage(page: Page): Promise<void>
