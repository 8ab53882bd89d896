/** What to do where neither the settings nor the model store have a model. */
export const NO_MODEL =
  'there is no model yet; get one with "npx lookout pull USER/REPOSITORY" (from Hugging Face) or "npm install lookout-nano" (Lookout Nano, the demonstration model)'
