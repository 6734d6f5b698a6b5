"""The bad part named from measurements of pairs of hosts: ``diagnose.py`` is the way in, ``fitted.py`` the method."""
