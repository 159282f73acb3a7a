// Keeps a folder without sources a valid library.
