"""The command line: parse, call the app, print, exit code; no logic here."""
