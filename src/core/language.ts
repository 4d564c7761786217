/** The languages that Pawl's own words to a model exist in; the words themselves are in words.ts. */
export const languages = ['en', 'zh'] as const;
export type Language = (typeof languages)[number];
