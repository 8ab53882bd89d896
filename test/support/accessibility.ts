import axe from 'axe-core'
import type { Page } from 'playwright-core'

/** What axe-core finds wrong on the page as it is: the rule and the element of each violation. */
export async function violationsOf(page: Page): Promise<string[]> {
  // Evaluated, not added as a script, which the page's policy forbids.
  await page.evaluate(axe.source)
  const { violations } = await page.evaluate(() => (globalThis as unknown as { axe: typeof axe }).axe.run())
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))
}
