"""The pages: a site made with Sphinx from the lessons, their receipts and a few written pages. It needs no network to be read."""
