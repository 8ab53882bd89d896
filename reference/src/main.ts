import SwaggerUIBundle from 'swagger-ui-dist/swagger-ui-bundle.js'
import 'swagger-ui-dist/swagger-ui.css'
import './page.css'

/** Swagger UI is dark where the root element has this class. */
const DARK = 'dark-mode'
const prefersDark = matchMedia('(prefers-color-scheme: dark)')
const follow = () => document.documentElement.classList.toggle(DARK, prefersDark.matches)
prefersDark.addEventListener('change', follow)
follow()

SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  // The list of groups comes first: there are many operations, and far more schemas.
  docExpansion: 'none',
  defaultModelsExpandDepth: 0,
  filter: true,
  displayRequestDuration: true,
  // A key is kept in this page alone, and until it is closed.
  persistAuthorization: false,
  // The badge of a validator on another host.
  validatorUrl: null,
})

void linkStudio()

/** The server says whether it has the Studio. */
async function linkStudio(): Promise<void> {
  const response = await fetch('/', { headers: { accept: 'application/json' } })
  const { links } = (await response.json()) as { readonly links: Readonly<Record<string, string>> }
  document.querySelector('#studio')!.toggleAttribute('hidden', links.studio === undefined)
}
