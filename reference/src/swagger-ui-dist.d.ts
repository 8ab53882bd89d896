declare module 'swagger-ui-dist/swagger-ui-bundle.js' {
  /** Shows a description of an API: https://swagger.io/docs/open-source-tools/swagger-ui/usage/configuration/ */
  export default function SwaggerUIBundle(options: Readonly<Record<string, unknown>>): void
}
