"""Who may do what in a site: documents that its authority has signed.

Pure: no files, no clock, no randomness. Read ``rights`` (what a client may do), ``credentials``
(who somebody is), ``signed`` (documents and signatures), ``revocations``, and ``site_trust``, which
a server asks; a client asks ``revoked_servers`` as well.
"""
