export { createApi } from './api.ts'
export { BodyReader } from './http/body/body-reader.ts'
export { ByteBudget } from './http/body/byte-budget.ts'
export { readPage } from './studio/index.ts'
